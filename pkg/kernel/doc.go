// Package kernel is the one room that speaks netlink. It dumps what the kernel
// of one network namespace holds of ours, applies plans in batches, and
// reports changes.
//
// Ours is what bears our mark: routes of protocol 84, and devices that are
// named tulle… or of group 84, with all that is on them. So are devices that a
// scope of a dump names as adopted.
package kernel
