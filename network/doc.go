// Package network is one node's life in the network: from leases to what the
// kernel must hold.
package network
