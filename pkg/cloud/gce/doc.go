// Package gce reads and adds alias IP ranges of instances in Google Compute Engine,
// over its REST API.
//
// One list request returns the instances of a zone, 500 a page. A few instances are
// asked for by name. Every request carries a fields parameter, so that an answer has a
// fiftieth of an instance. A limiter, and a pause for as long as the API asks, hold for
// all requests of a Client.
//
// AddAlias reads the interface, and sends it back with one more alias and with the
// fingerprint that was read: PATCH replaces the whole list, so ranges of others must be
// in it, and the API refuses it if they have changed.
package gce
