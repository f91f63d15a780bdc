package main

import (
	"os"
	"runtime"
	"runtime/debug"
)

// memoryLimit is where the process collects garbage more often. At full load, the buffers
// of the packets are most of its memory.
const memoryLimit = 96 << 20

// saveMemory keeps this process small, because it shares the host with containers.
func saveMemory() {
	runtime.MemProfileRate = 0
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit)
	}
}
