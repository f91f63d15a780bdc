// Package kubelettest runs tulle's DaemonSet as Kubernetes does. Each node is a
// kubelet, a containerd and a kube-proxy in namespaces of its own. The control plane
// is that of pkg/test/kubetest. The tests have the build tag kubelet.
package kubelettest
