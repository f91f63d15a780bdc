// Package release holds the release's build to its promises: the same tree gives
// the same bytes, and an archive has all that a host needs.
package release
