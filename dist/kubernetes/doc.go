// Package kubernetes holds the Helm chart, the manifest that is made of it and the
// kustomization to their promises, on a real control plane: that they are taken,
// that what they let the daemon do is enough and no more, and that a daemon in a
// container with no more rights than the DaemonSet's does its work. Its tests have
// the build tag kube.
package kubernetes
