// Package flags turns a command line and an environment into a program's
// settings, and writes the program's help, its manual page and the completions
// of shells. All of it comes from one table of commands and flags.
package flags
