// Package nodeipam gives every Node of a cluster its podCIDRs, as the
// node-ipam-controller of kube-controller-manager does with its RangeAllocator.
//
// pkg/ipam recomputes from the Nodes which Node owns which block; nothing is ever
// released. Every write requires the state of the Node that was read. So a late write of
// another leader succeeds only on a Node that has no podCIDRs and has not changed since.
// A term that does not begin cleanly therefore changes all such Nodes first, which is
// the fence, and gives out blocks after that.
package nodeipam
