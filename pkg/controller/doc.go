// Package controller is the engine of cluster-wide controllers. What objects of the
// cluster must be is a pure function of what was read; an event only marks.
//
// A Feed follows a resource, and hands what it reads to the Engine's loop. The loop
// owns all state of all controllers. It asks each Controller for the writes that are
// due now, as late as it can, and never for more than it may begin. A write is a value
// with a text, so the same plan can be printed, counted or made: modes and dry runs
// cost a controller nothing.
//
// The Engine plans only during a term of leadership, and only when every feed has
// listed since the term began. It limits the writes in flight over all controllers,
// pauses them for as long as the server asks, and backs off while the server fails.
package controller
