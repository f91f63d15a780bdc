// Package ipam decides which blocks of addresses the Nodes of a cluster get.
//
// A Book holds the Nodes and the pools. The Nodes' podCIDRs and the grants that are not
// settled yet determine which blocks are free. No call releases a block: a block is free
// when no Node owns it and its rest is over. The package reads no clock and calls no server:
// callers pass what they read, and write what the Book grants.
package ipam
