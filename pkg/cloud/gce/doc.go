// Package gce reads instances of Google Compute Engine, adds alias IP ranges to them, and
// reads and changes the routes of their network, over the REST API.
//
// Instances. One list request returns the instances of a zone, in pages of 500. A few
// instances are requested by name, and those of many zones by one list of all zones. The
// fields parameter of every request reduces an instance to a fiftieth of its size. An
// instance is absent only if a complete list of its zone lacks it.
//
// AddAlias reads the interface, and sends it back with one more alias and with the
// fingerprint that was read. PATCH replaces the whole list, so the list must contain the
// aliases of other programs. The API refuses the PATCH if they have changed.
//
// Routes. A route is an object of the network, and several may have one destination.
// Nothing replaces a route, so a replacement is a second route, and then the deletion of
// the first one; the one with the lower priority value carries the packets. Routes of ours
// bear the names and the description that Google's own controller gives its routes, so a
// cluster can change between the two controllers. A route without them is never changed.
//
// Operations end in their own time. One poll is about all that are waited for. One that
// outlasts its caller is waited for again, and not begun again.
package gce
