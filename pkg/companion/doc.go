// Package companion is what a daemon and a program that it starts share: how the daemon
// starts the program and follows it, and the socket on which a running one answers. The
// program outlives the daemon.
package companion
