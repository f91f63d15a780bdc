// Package status is what a running daemon reports, and how: plain values, served on a unix socket, and written out for people or programs.
package status
