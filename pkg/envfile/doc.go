// Package envfile is the file that tells a container runtime what its host has
// of the network, in the format that flannel made known: lines of a shell's
// variables, usually /run/flannel/subnet.env. It is written as flannel writes
// it, and read to find the subnet that the host had last.
package envfile
