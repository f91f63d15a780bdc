// Package kerneltest helps to test what drives a kernel: a Fake with faults to
// inject, network namespaces of the real kernel, and processes that end with the
// test.
package kerneltest
