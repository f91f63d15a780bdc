package flags

import "net/netip"

// The flags below are the same in several programs. In sets the group of each.

// HTTPAddress returns the flag of the address of a server for health and metrics.
func HTTPAddress(to *netip.Addr) Flag {
	return Flag{Name: "healthz-ip", Value: "IP", Default: "127.0.0.1", About: "HTTP address for health and metrics", Set: To(to, Address)}
}

// HTTPPort returns the flag of the port of a server for health and metrics.
func HTTPPort(to *uint16, standard string) Flag {
	return Flag{Name: "healthz-port", Value: "PORT", Default: standard, About: "HTTP port; 0 disables the server", Set: To(to, Port)}
}

// Pprof returns the flag that makes the server for health and metrics also serve profiles.
func Pprof(to *bool) Flag {
	return Flag{Name: "pprof", Default: "false", About: "serve profiles of the process over HTTP", Set: To(to, Bool)}
}

// LogLevel returns the flag of the log level.
func LogLevel(to *int, about string) Flag {
	return Flag{Name: "v", Value: "LEVEL", Default: "0", About: about, Set: To(to, Whole(0, 1<<31-1))}
}
