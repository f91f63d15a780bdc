// Package route is the controller of routes: it routes every Node's podCIDRs to the Node's
// instance, in all of the cluster's route tables. Package cloudroute decides; this package
// reads and writes.
//
// An event about a Node costs a lookup of its instance and a write for each table. The
// controller reads all tables once a minute, and before it removes a route. The ledger
// records which routes are ours. The controller writes it before the cloud, once for all
// routes that are due.
//
// A write of the ledger requires the version that was read, so the store refuses a late write
// of another leader. In Kubernetes, a large ledger has several parts, each with a version of
// its own. There, the server refuses a late write only if its part has changed since. Otherwise
// the next comparison, within a minute, reads it.
package route
