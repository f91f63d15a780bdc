// Package etcdlead is what cluster-wide controllers keep in etcd where there is no
// Kubernetes: one leader among the replicas of a program, and the ledger of routes.
//
// The leader's key is bound to an etcd lease. etcd removes it when the leader has not
// renewed the lease for its duration, and only then another replica leads. The leader
// itself stops earlier, by its own monotonic clock, when it could not renew in time.
package etcdlead
