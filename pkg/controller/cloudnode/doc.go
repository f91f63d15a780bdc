// Package cloudnode initialises the Nodes of a cloud, as a cloud controller manager's
// cloud-node-controller does. A kubelet of a cloud registers its Node with the taint
// node.cloudprovider.kubernetes.io/uninitialized. The controller finds the Node's
// instance, writes the instance's facts to the Node, and removes the taint.
//
// One lookup covers all waiting Nodes. The controller patches a Node twice: first its
// addresses, and then its labels and providerID together with the removal of the taint. So
// a Node without the taint is complete.
//
// The controller compares an initialised Node with its instance when a term begins, when
// the Node becomes ready, and once an hour. It updates only the addresses and the instance
// type, whichever program has initialised the Node.
//
// A kubelet chooses its providerID itself. While another ready Node has the same instance,
// the controller does not initialise a Node.
package cloudnode
