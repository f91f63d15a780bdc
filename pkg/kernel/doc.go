// Package kernel is the only room that speaks netlink. It dumps what the kernel of
// one network namespace holds of ours, applies plans in batches, and reports changes.
//
// Objects with our mark are ours: routes of protocol 84, and devices whose name
// begins with tulle or whose group is 84, with everything on them. So are devices
// that a scope of a dump names as adopted.
package kernel
