package main

import (
	"os"
	"runtime/debug"
)

// saveMemory makes this process a small one, which counts on a host that it shares
// with containers.
func saveMemory() {
	if os.Getenv("GOGC") == "" {
		// A daemon that mostly waits can afford to collect its garbage more often.
		debug.SetGCPercent(25)
	}
}
