// Package ends has the two ends of a WireGuard device in user space: the TUN device, whose packets
// it encrypts, and the UDP sockets. They move packets in batches. The kernel hands over and takes
// large packets in place of many, and each of the many is read to where the device encrypts it.
package ends
