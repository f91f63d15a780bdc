// Package subnet is the domain:
//   - Config is a network, and Lease what a node holds of it. Both are written in
//     flannel's formats.
//   - Candidates returns the subnets that a node tries.
//   - Table decides which leases of other nodes to accept.
//   - Set records which blocks of addresses are taken, for what gives them out.
//   - Store is where config and leases are kept.
//
// The package knows neither a kernel nor a datastore.
package subnet
