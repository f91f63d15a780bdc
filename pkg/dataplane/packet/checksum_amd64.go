package packet

import "golang.org/x/sys/cpu"

var hasBlocks = cpu.X86.HasAVX2

// sumBlocks adds the halves of all 64-bit words of blocks, of which there is at least one.
//
//go:noescape
func sumBlocks(b *byte, blocks int) uint64
