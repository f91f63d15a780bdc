// Package route is the controller of routes: it routes every Node's podCIDRs to the
// Node's instance, in all route tables of the cloud that are ours. Package cloudroute
// decides; this package reads and writes.
//
// An event about a Node costs a lookup of its instance and a write for each table. All
// tables are read once a minute, and before a route is removed. The ledger, which makes a
// route ours, is written before the cloud, once for all routes that are due. A write of
// the ledger requires the version that was read, so a late one of another leader is
// refused. In Kubernetes, a large ledger has several parts, each with a version of its own:
// there, a late write is refused if its part was changed since, and otherwise read within a
// minute.
package route
