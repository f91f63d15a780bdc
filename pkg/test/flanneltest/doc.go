// Package flanneltest has flannel itself for tests and benchmarks: one commit of it,
// built and kept in the user's cache folder.
package flanneltest
