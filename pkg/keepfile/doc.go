// Package keepfile owns files that others read. Write replaces one whole, so
// that a reader, or a host that loses its power, finds the old content or the
// new and nothing between. A Keeper has files stay as they were set, whatever
// else happens to them.
package keepfile
