// Package options turns a command line and an environment into one checked
// value. Every flag of tulled, under flannel's name where flannel has it, is a
// row of one table, with what it means, its default and its checks. Nothing
// here looks at the host: no file is read, no name is looked up.
package options
