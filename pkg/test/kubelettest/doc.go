// Package kubelettest runs tulle's DaemonSet as Kubernetes runs it: on nodes that
// are a kubelet, a containerd and a kube-proxy each, in namespaces of their own,
// below the control plane of pkg/test/kubetest. Its tests have the build tag kubelet.
package kubelettest
