// Package kubernetes tests the Helm chart, the plain manifests that are rendered from
// it, and the kustomization, on a real control plane. The server must accept them.
// The rights that they give the daemon and the controller must be enough, and no more.
// A daemon in a container with no more rights than the DaemonSet's must do its work.
// The tests have the build tag kube.
package kubernetes
