// Package udp is the engine of links that carry bare IP packets in UDP, as flannel's
// backend udp does. A link has several queues, each with a queue of the TUN device and a
// socket. Two goroutines serve a queue, one for each direction. They move packets in
// batches: the kernel hands over and takes large packets in place of many, on both sides.
package udp
