// Package packagetest installs tulle's packages on machines with systemd, and tests
// them from installation to removal. Its tests that need such a machine have the
// build tag packages.
package packagetest
