// Package e2e has the tests of whole daemons: tulled as it is built, on hosts in
// network namespaces, with real etcds, pods and pings between them.
package e2e
