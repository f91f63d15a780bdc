// Package controller is the engine of cluster-wide controllers. The desired state of the
// cluster's objects is a pure function of what was read. An event only marks a change.
//
// A Feed follows a resource, and passes what it reads to the Engine's loop. The loop owns
// the state of all controllers. It asks each Controller for the writes that are due, as late
// as possible and never for more than it may begin. A Write is a value with a text, so the
// Engine can print, count or make the same plan. A controller needs no code for modes and
// dry runs.
//
// The Engine plans only during a term of leadership, and only when every feed has read a
// full list since the term began. It limits the writes in flight over all controllers,
// pauses them for as long as the server asks, and backs off while the server fails. If the
// server denies the writes of one controller for several objects, only that one pauses.
package controller
