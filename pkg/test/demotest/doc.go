// Package demotest tests dist/demo/demo.sh, which `make demo` runs. Each test has a
// /run of its own, so that it meets no other demo on this machine.
package demotest
