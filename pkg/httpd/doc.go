// Package httpd serves HTTP to operators and programs. Its server limits what clients can
// cost it, guards against requests from other sites, and serves health and profiles of the
// process. The caller adds the other pages.
package httpd
