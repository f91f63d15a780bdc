// Package kube is the subnet.Store of networks whose hosts are Nodes of a Kubernetes
// cluster. A node's subnets are its Node's podCIDRs. It publishes the rest in its
// Node's annotations, in flannel's format.
package kube
