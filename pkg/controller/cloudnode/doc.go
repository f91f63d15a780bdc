// Package cloudnode initialises the Nodes of a cloud, as a cloud controller manager's
// cloud-node-controller does. A kubelet of a cloud registers its Node with the taint
// node.cloudprovider.kubernetes.io/uninitialized. The controller finds the Node's
// instance, writes what the cloud knows of it, and removes the taint.
//
// One lookup asks the cloud about all Nodes that wait. A Node gets two patches: its
// addresses, and then its labels and providerID together with the removal of the taint.
// So a Node without the taint is complete.
//
// An initialised Node is compared with its instance when a term begins, when it becomes
// ready, and once an hour. Only its addresses and its instance type follow the cloud: the
// rest is as it was when the Node was initialised, by whatever program.
//
// A kubelet chooses its providerID itself. A Node whose instance another Node has is not
// initialised while that one is ready.
package cloudnode
