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
	bufs, sizes := make([][]byte, n), make([]int, n)
	for i := range bufs {
		bufs[i] = make([]byte, device.MaxMessageSize)
	}
	f.in(bufs, sizes, offset)
	return bufs
}

// send lets packets out.
func (f *flow) send(bufs [][]byte) {
	f.leave()
	packets := make([][]byte, len(bufs))
	for i, b := range bufs {
		packets[i] = b[:100]
	}
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

// TestFullFlowWaits until packets leave. Those that came before them no longer count.
func TestFullFlowWaits(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		f := newFlow()
		f.send([][]byte{make([]byte, 148)}) // a handshake
		first := f.read(mostInside - 1)
		f.wait()
		f.read(1)
		through := f.waiting(2)
		synctest.Wait()
		if len(through) != 0 {
			t.Fatal("a reader did not wait")
		}
		f.send([][]byte{make([]byte, 148)})
		f.send([][]byte{make([]byte, device.MaxMessageSize)}) // a keepalive
		f.send(nil)
		synctest.Wait()
		if len(through) != 0 {
			t.Fatal("a reader goes on after what the device sent by itself")
		}
		f.send(first[9:10])
		synctest.Wait()
		if len(through) != 2 {
			t.Fatalf("%d of 2 readers go on", len(through))
		}
		f.read(9)
		f.wait()
		f.read(1)
		through = f.waiting(1)
		synctest.Wait()
		if len(through) != 0 {
			t.Error("packets count no longer, though none before them has left")
		}
		<-through
	})
}

// TestLostPacketsStopNothing: a flood to a peer without a session leaves room for the others.
func TestLostPacketsStopNothing(t *testing.T) {
	for name, alone := range map[string]bool{"alone": true, "with others": false} {
		t.Run(name, func(t *testing.T) {
			bubbletest.Test(t, func(t *testing.T) {
				f, began := newFlow(), time.Now()
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
				longest := time.Duration(0)
				if alone { // the first packets of a flood fill the flow
					longest = batches * conn.IdealBatchSize / mostInside * leastPatience
				}
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
		f := newFlow()
		waits := func(want time.Duration) {
			t.Helper()
			began := time.Now()
			if f.wait(); time.Since(began) != want {
				t.Errorf("the reader waited for %v, not %v", time.Since(began), want)
			}
		}
		for want := leastPatience; want < 3*mostPatience; want *= 2 {
			bufs := f.read(mostInside)
			waits(min(want, mostPatience))
			f.send(bufs[:100])
			f.send(bufs[100:]) // once is enough
		}
		f.read(mostInside)
		waits(mostPatience)
		<-time.After(calm)
		for want := mostPatience; want > leastPatience/2; want /= 2 {
			f.read(mostInside)
			waits(want)
			<-time.After(calm)
		}
		f.read(mostInside)
		waits(leastPatience)
	})
}

// TestFullFlowWaitsForTheSocket: packets that wait for the socket are not lost.
func TestFullFlowWaitsForTheSocket(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		f := newFlow()
		bufs := f.read(mostInside)
		f.leave()
		through := f.waiting(1)
		<-time.After(time.Second)
		if len(through) > 0 {
			t.Fatal("the reader did not wait")
		}
		f.done(bufs[:1])
		<-through
	})
}

// TestFlowIsBounded: whatever the device drops, and in whatever order peers send, no more packets are
// inside than a flow and two batches have.
func TestFlowIsBounded(t *testing.T) {
	random := rand.New(rand.NewPCG(13, 14))
	f := newFlow()
	queues := make([][][]byte, 5) // of peers; the last has no session
	inside := func() (n int) {
		for _, q := range queues[:len(queues)-1] {
			n += len(q)
		}
		return n
	}
	const most = mostInside + 2*conn.IdealBatchSize
	dropped, turn := 0, 0
	for range 2000 {
		f.dropped(dropped)
		dropped = 0
		if f.came-f.gone < mostInside {
			for _, b := range f.read(1 + random.IntN(conn.IdealBatchSize)) {
				if random.IntN(10) == 0 {
					dropped++ // to no peer
				} else if i := random.IntN(len(queues)); i < len(queues)-1 {
					queues[i] = append(queues[i], b)
				}
			}
		}
		if n := inside(); n > most {
			t.Fatalf("%d packets are inside", n)
		}
		for range random.IntN(4) {
			turn = (turn + 1) % (len(queues) - 1)
			q := &queues[turn]
			n := min(len(*q), conn.IdealBatchSize)
			f.send((*q)[:n])
			*q = (*q)[n:]
		}
	}
	if f.lost != 0 {
		t.Error("packets were given up")
	}
}

// TestPacketsThatAreDroppedAtOnceDoNotCount: the device keeps their buffers.
func TestPacketsThatAreDroppedAtOnceDoNotCount(t *testing.T) {
	var k kept
	bufs := [][]byte{make([]byte, 1), make([]byte, 1), make([]byte, 1)}
	if k.count(bufs) != 0 {
		t.Error("there were packets before the first read")
	}
	k.note(bufs[:2])
	bufs[0] = make([]byte, 1)
	if n := k.count(bufs); n != 1 {
		t.Errorf("%d packets were dropped", n)
	}
	if k.first != (kept{}).first {
		t.Error("buffers are kept until the next packets come")
	}
}
