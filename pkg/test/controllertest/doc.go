// Package controllertest tests tulle-controller against a real control plane, and compares it
// with the kube-controller-manager that it replaces. Its tests and its benchmark have the build
// tag kube.
package controllertest
