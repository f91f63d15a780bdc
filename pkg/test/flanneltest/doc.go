// Package flanneltest builds flannel itself for tests and benchmarks: one commit of
// it, kept in the user's cache folder.
package flanneltest
