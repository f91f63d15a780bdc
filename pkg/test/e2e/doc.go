// Package e2e tests whole daemons: tulled as it is built, on hosts in network
// namespaces, with real etcds, and with pods and pings between them.
package e2e
