// Package clustercidr makes pools of ClusterCIDRs, the objects of
// kubernetes-sigs/node-ipam-controller.
//
// Each ClusterCIDR is a pool of podCIDRs. After its deletion, a finalizer keeps it for as
// long as Nodes have blocks of it, and it gives no more. A Node that was created after a
// ClusterCIDR can use it, even if it is read first. A ClusterCIDR that is no valid
// pool is left out and reported; the others are not affected.
package clustercidr
