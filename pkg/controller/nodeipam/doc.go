// Package nodeipam gives every Node of a cluster its podCIDRs, as the
// node-ipam-controller of kube-controller-manager does with its RangeAllocator.
//
// Which Node owns which block is recomputed from the Nodes (pkg/ipam); nothing is ever
// released. Every write requires the state of the Node that was read. So a late write of
// another leader can reach only a Node that has no podCIDRs and that nothing has changed
// since: a term that does not begin cleanly changes those Nodes first, and gives out
// blocks after that.
package nodeipam
