// Package web serves the daemon's state over HTTP: health for probes, metrics for
// scrapers, and one page for people.
package web
