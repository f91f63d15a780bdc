package ends

import "golang.zx2c4.com/wireguard/conn"

// kept remembers the buffers of a read. The device takes those of the packets that it moves, and puts
// others in their place. It keeps those of the packets that it drops at once: to no peer, or from a
// stranger.
type kept struct {
	first [conn.IdealBatchSize]*byte
	n     int
}

// note remembers the buffers of packets.
func (k *kept) note(bufs [][]byte) {
	for i, b := range bufs {
		k.first[i] = &b[0]
	}
	k.n = len(bufs)
}

// count returns how many of the packets the device has dropped at once, and forgets all.
func (k *kept) count(bufs [][]byte) (dropped int) {
	for i := range min(k.n, len(bufs)) {
		if &bufs[i][0] == k.first[i] {
			dropped++
		}
	}
	clear(k.first[:k.n])
	return dropped
}
