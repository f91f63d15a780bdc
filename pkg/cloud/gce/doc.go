// Package gce reads and adds alias IP ranges of instances in Google Compute Engine,
// over its REST API.
//
// One list request returns the instances of a zone, in pages of 500. A few instances are
// requested by name. The fields parameter of every request reduces an instance to a fiftieth
// of its size. One limiter paces all requests of a Client, and pauses them for as long as the
// API asks.
//
// AddAlias reads the interface, and sends it back with one more alias and with the
// fingerprint that was read. PATCH replaces the whole list, so the list must contain the
// aliases of other programs. The API refuses the PATCH if they have changed.
package gce
