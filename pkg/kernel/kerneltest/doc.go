// Package kerneltest helps to test what drives a kernel: a Fake with faults to
// inject, and network namespaces of the real one.
package kerneltest
