// Package cloudroute decides which routes the route tables of a cloud get, so that the
// cloud itself carries the packets between the containers of all nodes. It is pure: a
// Book learns what nodes need, what the tables and the ledger contain, what time it is,
// and how changes ended. The caller reads and writes.
//
// Every table that is ours gets a route for each range of each node. A route is ours if
// the ledger says so: the ledger names the table, the destination and the target, and is
// written before the cloud. A route that is exactly what a living node needs is adopted
// into the ledger. Every other route is foreign: a Book reports it, and never changes it.
//
// A Book removes a route only if all of this holds: the ledger has it, its target is
// still one that the ledger names, no node has needed it for Options.Grace, the table was
// read completely after that, and at least one node needs a route.
package cloudroute
