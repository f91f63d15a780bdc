// Package datagram sends and receives UDP datagrams in batches, for programs that move many
// packets: it has the structures that the kernel takes, with the control messages that split and
// join datagrams, and that say which address of this host they came to.
package datagram
