package ends

import (
	"encoding/binary"
	"sync"
	"time"

	"golang.zx2c4.com/wireguard/conn"
	"golang.zx2c4.com/wireguard/device"
)

const (
	// mostInside is how many packets of one direction are between its ends when it reads no more
	// for a while. Each takes a buffer of 64 KiB. More packets wait in the kernel, for less.
	mostInside = 256
	// leastPatience and mostPatience limit the time after which packets are given up.
	leastPatience = 2 * time.Millisecond
	mostPatience  = 64 * time.Millisecond
	// calm is the time without an error after which patience gets shorter.
	calm = 10 * time.Second
	// freed is the most by which a number may exceed that of the last packet, after numbers were freed.
	freed = 2 * conn.IdealBatchSize
	// numberAt is where a buffer has the number of its packet, behind what any packet needs.
	numberAt = device.MaxMessageSize - 8
)

// flow counts the packets of one direction that are between its ends. It numbers what comes in. When a
// packet leaves, all with lower numbers have left or were dropped, or soon will be: the device keeps
// the order of each peer's packets. If none leaves for a time, as those to a peer without a session,
// all are given up. The time is longer after it was too short, as when other programs have the
// processors.
type flow struct {
	mu       sync.Mutex
	came     uint64 // the number of the last packet that came in
	gone     uint64 // the highest number that left or was given up
	left     uint64 // the highest number that left
	lost     uint64 // the highest number that was given up
	since    time.Time
	leaving  int // batches that are about to leave
	patience time.Duration
	judged   bool      // whether giving up was wrong the last time
	changed  time.Time // when patience was
	room     chan struct{}
}

func newFlow() *flow {
	return &flow{patience: leastPatience, changed: time.Now(), judged: true, room: make(chan struct{}, 1)}
}

// wait waits until packets may come in.
func (f *flow) wait() {
	for {
		left := f.full()
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

// full returns 0, or how long no packets may come in if none leave.
func (f *flow) full() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.came-f.gone < mostInside {
		return 0
	}
	now := time.Now()
	if f.leaving > 0 {
		f.since = now
	}
	if left := f.patience - now.Sub(f.since); left > 0 {
		return left
	}
	f.giveUp(now)
	return 0
}

// giveUp gives up all packets.
func (f *flow) giveUp(now time.Time) {
	f.gone, f.lost, f.judged, f.since = f.came, f.came, false, now
	if now.Sub(f.changed) >= calm {
		f.patience, f.changed = max(f.patience/2, leastPatience), now
	}
}

// in is called when packets have come in. Each is in a buffer, from offset.
func (f *flow) in(bufs [][]byte, sizes []int, offset int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, b := range bufs {
		f.came++
		if len(b) == device.MaxMessageSize && offset+sizes[i] <= numberAt {
			binary.NativeEndian.PutUint64(b[numberAt:], f.came)
		}
	}
	f.since = time.Now()
}

// dropped is called when the device has dropped some of the packets that came in last. It frees their
// numbers for others.
func (f *flow) dropped(n int) {
	if n == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.came -= uint64(n)
	f.gone = min(f.gone, f.came)
}

// leave is called before packets leave, which may block, and done after it.
func (f *flow) leave() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.leaving++
}

func (f *flow) done(bufs [][]byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.leaving--
	number := uint64(0)
	if len(bufs) > 0 {
		number = numberOf(bufs[len(bufs)-1])
	}
	if number > f.came+freed {
		return // a keepalive, in a buffer that the other direction has used
	}
	now := time.Now()
	number = min(number, f.came)
	if number > f.left && number <= f.lost && !f.judged {
		f.judged, f.patience, f.changed = true, min(2*f.patience, mostPatience), now
	}
	f.left = max(f.left, number)
	if number <= f.gone {
		return
	}
	full := f.came-f.gone >= mostInside
	f.gone, f.since = number, now
	if full && f.came-f.gone < mostInside {
		f.wake()
	}
}

// numberOf returns the number of the packet in a buffer, or 0 for what the device made itself.
func numberOf(b []byte) uint64 {
	if cap(b) != device.MaxMessageSize || len(b) > numberAt {
		return 0
	}
	return binary.NativeEndian.Uint64(b[numberAt:cap(b)])
}

func (f *flow) wake() {
	select {
	case f.room <- struct{}{}:
	default:
	}
}
