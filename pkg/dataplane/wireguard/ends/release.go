package ends

import "golang.zx2c4.com/wireguard/device"

// blank takes the places of packets that have left.
var blank [device.MaxMessageSize]byte

// release leaves only the packets' lengths in bufs, which the device adds up. For each peer, the device
// keeps two lists of the last packets that it moved, up to 128 in each. They would keep as many buffers
// of 64 KiB from being collected after the device has put them back. A packet that encryption has made
// larger than a buffer was refused by the kernel, so its length does not matter.
func release(bufs [][]byte) {
	for i, b := range bufs {
		bufs[i] = blank[:min(len(b), len(blank))]
	}
}
