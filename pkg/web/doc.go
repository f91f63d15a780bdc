// Package web answers over HTTP how a daemon is: to what probes it, to what
// scrapes its metrics, and to people, on one page.
package web
