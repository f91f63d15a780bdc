// Package status is what a running daemon tells of itself, and how: a report as
// plain values, served on a unix socket, and written out for people or programs.
package status
