// Package options holds the table of tulled's commands and flags, and checks their
// values. Every flag is a row of the table, with its meaning, its default and its
// checks. Where flannel has the flag, it has flannel's name. This package does not
// look at the host: it reads no file and resolves no name.
package options
