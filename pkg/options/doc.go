// Package options holds the table of tulled's commands and flags, and checks what
// they say. Every flag, under flannel's name where flannel has it, is a row of
// the table, with its meaning, its default and its checks. Nothing here looks at
// the host: no file is read, no name is looked up.
package options
