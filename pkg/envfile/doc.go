// Package envfile reads and writes the env file, from which a container runtime learns
// the host's part of the network. The format is flannel's: shell variables, one a line,
// usually in /run/flannel/subnet.env. The daemon reads the file to find the subnet that
// the host had last.
package envfile
