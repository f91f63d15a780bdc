package ends

import (
	"encoding/binary"
	"sync"
	"sync/atomic"
	"time"

	"golang.zx2c4.com/wireguard/device"
)

const (
	// mostInside is how many packets of one direction are between its ends when it reads no more
	// for a while. Each takes a buffer of 64 KiB. More packets wait in the kernel, for less.
	mostInside = 256
	// mostKept is how many packets that were given up may still have a buffer.
	mostKept = 512
	// span is how many of the last numbers may be of packets inside.
	span = 1 << 14
	// leastPatience and mostPatience limit the shortest time after which a packet is given up.
	leastPatience = 2 * time.Millisecond
	mostPatience  = 16 * time.Millisecond
	// calm is the time without an error after which patience gets shorter.
	calm = time.Second
	// numberAt is where a buffer has the number of its packet, behind what any packet needs.
	numberAt = device.MaxMessageSize - 8
	// idAt is the lowest bit of the flow's own number there.
	idAt = 48
)

// flows counts the flows of this process.
var flows atomic.Uint64

// flow counts the packets of one direction that are between its ends. The device does not say which
// packets it drops, as those to a peer without a session. So packets are numbered, and time is divided
// into periods. Those that came before a period are given up after it if packets have left in it, but
// only with higher numbers, or none at all: the device keeps the order of each peer's packets. If one
// leaves after all, it was only slow, because other programs had the processors, and periods become
// longer. Packets to a peer without a session wait inside for the session, up to 16,384 for each peer
// and for up to 90 s. When too many of those that were given up may do so, the flow has them dropped.
type flow struct {
	id      uint64
	drop    func() // drops packets that wait for sessions
	mu      sync.Mutex
	inside  int
	is      [span]bool // inside, by number
	came    uint64     // the number of the last packet that came in
	floor   uint64     // the highest number that was given up
	kept    int        // packets given up and not seen again, of those above dropped
	dropped uint64     // the highest number given up before drop was called

	began    time.Time // of the period
	before   uint64    // the last number before the period
	lowest   uint64    // the lowest number that left in the period, or 0
	leaving  int       // batches with packets that are about to leave
	patience time.Duration
	changed  time.Time // when patience has changed
	lost     uint64    // the highest number given up at the end of a period, and not yet seen to leave
	room     chan struct{}
}

func newFlow(drop func()) *flow {
	now := time.Now()
	return &flow{id: flows.Add(1) & 0xffff, drop: drop, began: now, patience: leastPatience, changed: now, room: make(chan struct{}, 1)}
}

// wait waits until packets may come in.
func (f *flow) wait() {
	for {
		left, crowded := f.full()
		if crowded {
			f.drop()
		}
		if left == 0 {
			f.wake() // another reader, if there is one
			return
		}
		timer := time.NewTimer(left)
		select {
		case <-f.room:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// full returns 0, or how long no packets may come in if none leave, and whether too many packets are
// kept.
func (f *flow) full() (left time.Duration, crowded bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	if now.Sub(f.began) >= f.patience {
		f.turn(now)
	}
	if crowded = f.kept > mostKept; crowded {
		f.kept, f.dropped = 0, f.floor
	}
	if f.inside < mostInside {
		return 0, crowded
	}
	return f.patience - now.Sub(f.began), crowded
}

// turn ends a period, and begins the next one.
func (f *flow) turn(now time.Time) {
	lost := f.before
	switch {
	case f.lowest > 0:
		lost = min(lost, f.lowest-1)
	case f.leaving > 0: // they wait for the socket
		lost = 0
	}
	if f.giveUp(lost) {
		f.lost = lost
		if now.Sub(f.changed) >= calm {
			f.patience, f.changed = max(f.patience/2, leastPatience), now
		}
	}
	f.began, f.before, f.lowest = now, f.came, 0
}

// giveUp gives up the packets up to a number, and reports whether there were any.
func (f *flow) giveUp(last uint64) bool {
	before := f.inside
	for ; f.floor < last; f.floor++ {
		f.take(f.floor + 1)
	}
	f.kept += before - f.inside
	return f.inside < before
}

// take takes a packet out, and reports whether it was inside.
func (f *flow) take(number uint64) bool {
	is := &f.is[number%span]
	if number <= f.floor || number > f.came || !*is {
		return false
	}
	*is = false
	f.inside--
	return true
}

// again is called when a packet with a number leaves or is known to be dropped. It reports whether the
// packet was inside.
func (f *flow) again(number uint64) bool {
	if number > f.dropped && number <= f.floor {
		f.kept--
	}
	return f.take(number)
}

// in is called when packets have come in. Each is in a buffer, from offset.
func (f *flow) in(bufs [][]byte, sizes []int, offset int, counts func([]byte) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, b := range bufs {
		if len(b) != device.MaxMessageSize || offset+sizes[i] > numberAt || !counts(b[offset:]) {
			continue
		}
		f.came++
		if f.came > span {
			f.giveUp(f.came - span)
		}
		f.is[f.came%span] = true
		f.inside++
		binary.NativeEndian.PutUint64(b[numberAt:], f.id<<idAt|f.came)
	}
}

func always([]byte) bool { return true }

// back is called with buffers that the device offers. Those with numbers had packets that it has
// dropped.
func (f *flow) back(bufs [][]byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, b := range bufs {
		f.again(f.forget(b))
	}
}

// leave is called before packets leave, which may block, and done after it.
func (f *flow) leave(bufs [][]byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.numbered(bufs) {
		f.leaving++
	}
}

func (f *flow) done(bufs [][]byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.numbered(bufs) {
		f.leaving--
	}
	full := f.inside >= mostInside
	for _, b := range bufs {
		number := f.forget(b)
		if f.again(number) && (f.lowest == 0 || number < f.lowest) {
			f.lowest = number
		}
		if number > 0 && number <= f.lost {
			f.lost, f.patience, f.changed = 0, min(2*f.patience, mostPatience), time.Now()
		}
	}
	if full && f.inside < mostInside {
		f.wake()
	}
}

// numbered reports whether packets have come in, and were not made by the device: a handshake, or a
// keepalive.
func (f *flow) numbered(bufs [][]byte) bool {
	return len(bufs) > 0 && f.number(bufs[len(bufs)-1]) > 0
}

// number returns the number in a buffer, or 0 if this flow has put none there.
func (f *flow) number(b []byte) uint64 {
	if cap(b) != device.MaxMessageSize {
		return 0
	}
	n := binary.NativeEndian.Uint64(b[numberAt:cap(b)])
	if n>>idAt != f.id {
		return 0
	}
	return n & (1<<idAt - 1)
}

// forget returns the number in a buffer, and removes it.
func (f *flow) forget(b []byte) uint64 {
	n := f.number(b)
	if n > 0 {
		clear(b[numberAt:cap(b)])
	}
	return n
}

func (f *flow) wake() {
	select {
	case f.room <- struct{}{}:
	default:
	}
}
