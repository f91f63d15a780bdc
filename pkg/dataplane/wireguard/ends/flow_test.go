package ends

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/tulle-net/tulle/pkg/test/bubbletest"
)

// TestFullFlowWaits until packets come out, or until they are lost.
func TestFullFlowWaits(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		f, began := newFlow(), time.Now()
		f.out(3) // a handshake
		f.in(mostInside - 1)
		f.wait()
		f.in(1)
		through := make(chan bool, 2)
		for range cap(through) {
			go func() {
				f.wait()
				through <- true
			}()
		}
		synctest.Wait()
		if len(through) != 0 {
			t.Fatal("a reader did not wait")
		}
		f.out(1)
		synctest.Wait()
		if len(through) != 2 {
			t.Fatalf("%d of 2 readers go on", len(through))
		}
		f.in(1)
		if f.wait(); time.Since(began) < lostTime || time.Since(began) > 2*lostTime {
			t.Errorf("packets are lost after %v", time.Since(began))
		}
		before := time.Now()
		f.in(mostInside / 2)
		if f.wait(); time.Since(before) != 0 {
			t.Error("lost packets still count")
		}
	})
}

// TestLostPacketsStopNothing: a flood to a peer without a session leaves room for the others.
func TestLostPacketsStopNothing(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		f, began := newFlow(), time.Now()
		const rate = 60 // packets in a millisecond
		for range 1000 {
			f.wait()
			f.in(rate)
			<-time.After(time.Millisecond)
		}
		if spent := time.Since(began); spent != time.Second {
			t.Errorf("the reader waited for %v in a second", spent-time.Second)
		}
	})
}

// TestFullFlowWaitsForTheSocket: packets that wait for the socket are not lost.
func TestFullFlowWaitsForTheSocket(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		f := newFlow()
		f.in(mostInside)
		f.leave()
		through := make(chan bool, 1)
		go func() {
			f.wait()
			through <- true
		}()
		<-time.After(time.Second)
		if len(through) > 0 {
			t.Fatal("the reader did not wait")
		}
		f.left(1)
		<-through
	})
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
