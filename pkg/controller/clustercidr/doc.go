// Package clustercidr makes pools of ClusterCIDRs, the objects of
// kubernetes-sigs/node-ipam-controller.
//
// Each ClusterCIDR is a pool of podCIDRs. A finalizer keeps one that is deleted for as
// long as Nodes have blocks of it. Until then it gives no more. One that is no valid
// pool is left out and reported; the others are not affected.
package clustercidr
