package main

import (
	"os"
	"runtime"
	"runtime/debug"
)

const (
	// memoryLimit is where the process collects garbage more often. At full load, the
	// buffers of packets are most of its memory.
	memoryLimit = 172 << 20
	// garbage is the GOGC below the limit. Each collection drops buffers that the next
	// packets need, so it must be rare.
	garbage = 400
)

// saveMemory limits the memory of this process, because it shares the host with
// containers.
func saveMemory() {
	runtime.MemProfileRate = 0
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbage)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit)
	}
}
