package ends

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"golang.zx2c4.com/wireguard/conn"
	"golang.zx2c4.com/wireguard/device"

	"github.com/tulle-net/tulle/pkg/test/bubbletest"
)

// read lets packets in, and returns their buffers.
func (f *flow) read(n int) [][]byte {
	bufs := make([][]byte, n)
	for i := range bufs {
		bufs[i] = make([]byte, device.MaxMessageSize)
	}
	f.in(bufs, make([]int, n), offset, always)
	return bufs
}

// send lets packets out.
func (f *flow) send(bufs [][]byte) {
	packets := make([][]byte, len(bufs))
	for i, b := range bufs {
		packets[i] = b[:100]
	}
	f.leave(packets)
	f.done(packets)
}

// waiting starts readers that wait, and returns a channel with those that no longer do.
func (f *flow) waiting(readers int) chan bool {
	through := make(chan bool, readers)
	for range readers {
		go func() {
			f.wait()
			through <- true
		}()
	}
	return through
}

// TestFullFlowWaits until packets leave, of those that came in.
func TestFullFlowWaits(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		f, other := newFlow(func() {}), newFlow(func() {})
		f.send([][]byte{make([]byte, 148)}) // a handshake
		first := f.read(mostInside - 1)
		f.wait()
		f.read(1)
		began, through := time.Now(), f.waiting(2)
		f.send([][]byte{make([]byte, 148)})
		f.send([][]byte{make([]byte, device.MaxMessageSize)}) // a keepalive
		f.send(other.read(1))                                 // one in a buffer of the other direction
		f.send(nil)
		synctest.Wait()
		if len(through) != 0 {
			t.Fatal("a reader goes on after what the device sent by itself")
		}
		f.send(first[9:10])
		synctest.Wait()
		if len(through) != 2 || !time.Now().Equal(began) {
			t.Fatalf("%d of 2 readers go on", len(through))
		}
		f.send(first[9:10])
		if f.read(1); f.inside != mostInside {
			t.Errorf("%d packets are inside: one left twice", f.inside)
		}
	})
}

// TestReusedBuffersDoNotCount: the device has dropped what was in them.
func TestReusedBuffersDoNotCount(t *testing.T) {
	f, other := newFlow(func() {}), newFlow(func() {})
	bufs := f.read(mostInside)
	f.back(bufs[5:8])
	f.back(bufs[7:9])
	f.back(other.read(3))
	handshake := make([]byte, device.MaxMessageSize)
	handshake[0] = device.MessageInitiationType
	f.in([][]byte{handshake}, []int{148}, 0, transports)
	if f.inside != mostInside-4 {
		t.Errorf("%d packets are inside", f.inside)
	}
}

// TestLostPacketsStopNothing: a flood to a peer without a session leaves room for the others.
func TestLostPacketsStopNothing(t *testing.T) {
	for name, alone := range map[string]bool{"alone": true, "with others": false} {
		t.Run(name, func(t *testing.T) {
			bubbletest.Test(t, func(t *testing.T) {
				f, began := newFlow(func() {}), time.Now()
				go func() { // handshakes, which prove nothing
					for {
						select {
						case <-t.Context().Done():
							return
						case <-time.After(leastPatience / 4):
							f.send([][]byte{make([]byte, 148)})
						}
					}
				}()
				const batches = 1000
				for range batches {
					f.wait()
					bufs := f.read(conn.IdealBatchSize)
					if !alone {
						f.send(bufs[3:4])
					}
				}
				// Each is given up after one period to two.
				longest := (batches*conn.IdealBatchSize/mostInside + 1) * 2 * leastPatience
				if spent := time.Since(began); spent > longest {
					t.Errorf("the reader waited for %v", spent)
				}
			})
		})
	}
}

// TestPatienceLearns: packets that leave after they were given up were only slow.
func TestPatienceLearns(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		f := newFlow(func() {})
		for want := leastPatience; want < 4*mostPatience; want *= 2 {
			if is := min(want, mostPatience); f.patience != is {
				t.Fatalf("patience is %v, not %v", f.patience, is)
			}
			began, bufs := time.Now(), f.read(mostInside)
			if f.wait(); time.Since(began) < f.patience || time.Since(began) > 2*f.patience {
				t.Errorf("the reader waited for %v with %v", time.Since(began), f.patience)
			}
			f.send(bufs[:100])
			f.send(bufs[100:]) // once is enough
		}
		for want := mostPatience; want > leastPatience/4; want /= 2 {
			if is := max(want, leastPatience); f.patience != is {
				t.Fatalf("patience is %v, not %v", f.patience, is)
			}
			<-time.After(calm)
			f.read(mostInside)
			f.wait()
		}
	})
}

// TestFullFlowWaitsForTheSocket: packets that wait for the socket are not lost.
func TestFullFlowWaitsForTheSocket(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		f := newFlow(func() {})
		bufs := f.read(mostInside)
		f.leave(bufs[:1])
		through := f.waiting(1)
		<-time.After(time.Second)
		if len(through) > 0 {
			t.Fatal("the reader did not wait")
		}
		began := time.Now()
		f.done([][]byte{bufs[0][:100]})
		if <-through; !time.Now().Equal(began) {
			t.Errorf("the reader waited for %v more", time.Since(began))
		}
	})
}

// TestFlowIsBounded: whatever the device drops, and in whatever order peers send, no more packets are
// inside than a flow and a batch have. Most are one peer's, whose packets leave last.
func TestFlowIsBounded(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(13, 14))
		f := newFlow(func() {})
		queues := make([][][]byte, 5) // of peers
		var offered, pool, free [][]byte
		for range 2 * mostInside {
			free = append(free, make([]byte, device.MaxMessageSize))
		}
		inside, read, lost := 0, 0, 0
		for step := range 20000 {
			f.back(offered)
			free, offered = append(free, offered...), nil
			if left, _ := f.full(); left == 0 {
				bufs := free[:1+random.IntN(conn.IdealBatchSize)]
				free = free[len(bufs):]
				f.in(bufs, make([]int, len(bufs)), offset, always)
				for _, b := range bufs {
					switch i := random.IntN(20); {
					case i == 0: // dropped at once
						offered = append(offered, b)
					case i == 1: // dropped later, with its buffer
						lost++
						free = append(free, make([]byte, device.MaxMessageSize))
					case i == 2: // dropped later; another packet gets its buffer
						pool = append(pool, b)
					default:
						i = max(0, i-20+len(queues)) // mostly the first
						queues[i] = append(queues[i], b)
						inside++
					}
				}
			}
			if read = max(read, inside); inside > mostInside+conn.IdealBatchSize {
				t.Fatalf("%d packets are inside in step %d", inside, step)
			}
			peer := random.IntN(len(queues))
			n := min(len(queues[peer]), 1+random.IntN(conn.IdealBatchSize/4))
			f.send(queues[peer][:n])
			free = append(free, queues[peer][:n]...)
			queues[peer], inside = queues[peer][n:], inside-n
			offered, pool = append(offered, pool...), nil
			<-time.After(10 * time.Microsecond)
		}
		if f.came < 100000 || read < mostInside/2 || lost == 0 {
			t.Errorf("%d packets came in, %d at once, and %d were lost", f.came, read, lost)
		}
	})
}

// TestWaitingPacketsAreDropped: those to peers without a session, before they take too much memory.
func TestWaitingPacketsAreDropped(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		var waiting, offered [][]byte
		drops, most := 0, 0
		f := newFlow(func() {
			drops++
			waiting, offered = nil, waiting[:len(waiting)/2] // the others are no longer used
		})
		for range 200 {
			f.back(offered)
			offered = nil
			f.wait()
			bufs := f.read(conn.IdealBatchSize)
			f.send(bufs[:7])
			waiting = append(waiting, bufs[7:]...)
			most = max(most, len(waiting))
		}
		if limit := mostKept + 2*mostInside + 2*conn.IdealBatchSize; most > limit || drops < 200*conn.IdealBatchSize/limit/2 {
			t.Errorf("%d packets waited, and were dropped %d times", most, drops)
		}
	})
}

// TestSlowPacketsAreNotDropped: they were given up, and leave or come back.
func TestSlowPacketsAreNotDropped(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		f := newFlow(func() { t.Error("packets were dropped") })
		for range 20 * mostKept / mostInside {
			bufs := f.read(mostInside)
			f.wait()
			f.send(bufs[:100])
			f.back(bufs[100:])
		}
		if f.kept != 0 {
			t.Errorf("%d packets are kept", f.kept)
		}
	})
}
