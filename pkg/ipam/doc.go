// Package ipam decides which blocks of addresses the Nodes of a cluster get.
//
// A Book knows the Nodes and the pools. Which blocks are free follows from the Nodes'
// podCIDRs and from the grants that are not settled yet: nothing is ever released, only
// no longer owned. The package reads no clock and calls no server: callers pass what they
// read, and write what the Book grants.
package ipam
