// Package packagetest installs tulle's packages on machines with systemd, and
// takes them through their whole life. Its tests that need such a machine have
// the build tag packages.
package packagetest
