package packet

const hasBlocks = true

// sumBlocks adds the halves of all 64-bit words of blocks, of which there is at least one.
//
//go:noescape
func sumBlocks(b *byte, blocks int) uint64
