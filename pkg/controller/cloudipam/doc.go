// Package cloudipam gives Nodes the podCIDRs that a cloud routes to their instances, as
// kube-controller-manager does with Google's alias ranges.
//
// With CloudAllocator and FromCloud, the cloud assigns the ranges, and the controller writes
// them to the Nodes. With FromCluster, the controller assigns them (pkg/ipam), adds each to
// its instance, and writes it to the Node only when the instance has it. In every mode, a
// Node gets only what the cloud routes to it. So a late write of another leader does no harm,
// and no fence is needed: the cloud assigns no range to two instances, and refuses a change
// of an interface that has changed since it was read.
//
// An instance belongs to a Node only if it has the Node's name. A kubelet chooses its
// providerID itself, and must not get the ranges of another instance.
package cloudipam
