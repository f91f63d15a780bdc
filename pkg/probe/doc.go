// Package probe finds out whether packets really reach the other nodes, which
// neither a lease nor a route can tell: it has small and large ones come back from
// a few peers at a time, through the overlay itself, and where they do not it
// tries what passes, to tell the likely cause.
//
// How many peers are tried at a time is fixed, so that the cost does not grow
// with the cluster; what fails is tried again in each round until it is well.
package probe
