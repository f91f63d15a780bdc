// Package kubelettest runs tulle's DaemonSet and tulle-controller's Deployment as
// Kubernetes does. Each node is a kubelet, a containerd and a kube-proxy in namespaces of
// its own. The control plane is that of pkg/test/kubetest, or kubeadm makes it of static
// pods. The tests have the build tag kubelet.
package kubelettest
