// Package packagetest installs tulle's packages on machines with systemd and has
// them live through all that packages do. Its tests that need such a machine have
// the build tag packages.
package packagetest
