// Package httpd serves HTTP to operators and to machines: a server that bounds
// what its clients cost, guards against other sites, health, and profiles of the
// process. What else is served its caller says.
package httpd
