// Package netstate describes, as plain values, what a kernel must hold or does
// hold of ours, and what to do to get from one to the other. It is pure: it
// knows no netlink, no time and no goroutine.
package netstate
