// Package wireguard is the engine of WireGuard links whose packets a program moves. It
// keeps a tulle-wireguard running for each such link, and sends it the link's keys and
// peers. The program outlives this process, so that a restart costs no packet. While there
// is none, the TUN device stays, with its routes, and drops what it is given.
package wireguard
