// Package probe checks whether packets really reach the other nodes, which neither a
// lease nor a route shows. It sends small and large packets to a few peers at a time,
// through the overlay itself, and expects them back. If they do not return, it tries
// which ones do, to find the likely cause.
//
// The number of peers in a round is fixed, so that the cost does not grow with the
// cluster. A failing peer is probed again in each round until it answers.
package probe
