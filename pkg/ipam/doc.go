// Package ipam decides which blocks of addresses the Nodes of a cluster get.
//
// A Book knows the Nodes and the pools. What is free follows from what Nodes say and
// from the grants that are not settled yet: nothing is ever released, only no longer
// owned. The package reads no clock and speaks to no server: callers hand in what
// they read, and write what the Book grants.
package ipam
