// Package controllertest tests tulle-controller against a real control plane, beside
// the kube-controller-manager whose place it takes. Its tests have the build tag kube,
// and so has its benchmark.
package controllertest
