// Package etcdlead stores the state of cluster-wide controllers in etcd, for hosts without
// Kubernetes: the leader among the replicas of a program, the ledger of routes, and the
// notices.
//
// The leader's key is bound to an etcd lease. etcd deletes the key when the leader has not
// renewed the lease for its duration. Only then another replica leads. The leader itself
// stops earlier, by its own monotonic clock, if it could not renew in time.
package etcdlead
