// Package packet reads and changes IP packets in memory, for programs that move them
// between a TUN device and a socket: it checks headers, splits the large packets that a
// kernel hands over in place of many, and merges many into a large one. Packets come from
// other hosts and from containers, and nothing in them is believed.
package packet
