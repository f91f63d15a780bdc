// Package traffictest measures how much traffic a network carries: TCP streams, and small
// UDP packets at a fixed rate. Sender and receiver are processes of their own, of the
// test's own program, in network namespaces.
package traffictest
