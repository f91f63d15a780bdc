// Package release tests the release's build: the same tree gives the same bytes, and
// an archive has everything that a host needs.
package release
