// Package cloudroute decides which routes the route tables of a cloud get, so that the
// cloud itself carries the packets between the containers of all nodes. It is pure: the
// caller passes the nodes, the tables, the ledger, the time and the outcomes of changes to a
// Book, and makes the changes that the Book returns.
//
// Every table of the cluster gets a route for each range of each node. A route is ours if
// the ledger has its table, destination and target. The ledger is written before the
// cloud. A Book adopts a route into the ledger if it is exactly the one that a living node
// needs. Every other route is foreign: a Book reports it, and never changes it.
//
// A Book removes a route only if all of these conditions hold:
//
//   - the ledger has the route with its current target;
//   - no node has needed the route for Options.Grace;
//   - the table was read completely after the last node was gone;
//   - at least one node needs a route.
package cloudroute
