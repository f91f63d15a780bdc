// Package kube is the subnet.Store of networks whose hosts are the Nodes of a
// Kubernetes cluster: a node's subnets are its Node's podCIDRs, and what it
// publishes stands in its Node's annotations, in flannel's words.
package kube
