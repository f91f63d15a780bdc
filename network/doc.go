// Package network runs one node: from leases to what the kernel must hold.
package network
