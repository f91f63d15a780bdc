package ends

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"weak"
)

// watched makes a device's list of buffers with packets, and references to them that do not keep them.
func watched(packets [][]byte) (bufs [][]byte, buffers []weak.Pointer[byte]) {
	for _, p := range packets {
		b := append(make([]byte, offset, maxPacket), p...)
		bufs, buffers = append(bufs, b), append(buffers, weak.Make(&b[0]))
	}
	return bufs, buffers
}

func gone(t *testing.T, buffers []weak.Pointer[byte]) {
	t.Helper()
	runtime.GC()
	for i, b := range buffers {
		if b.Value() != nil {
			t.Errorf("buffer %d is kept", i)
		}
	}
}

// TestNothingKeepsWhatHasMoved: a device keeps its lists, but must not keep buffers with them.
func TestNothingKeepsWhatHasMoved(t *testing.T) {
	random := rand.New(rand.NewPCG(11, 12))
	packets := expected(large(false, false, 0, 1000, 40*1000, random))
	t.Run("written", func(t *testing.T) {
		d, far := newPipe(t)
		bufs, buffers := watched(packets)
		if _, err := d.Write(bufs, offset); err != nil {
			t.Fatal(err)
		}
		gone(t, buffers)
		runtime.KeepAlive(bufs)
		runtime.KeepAlive(d)
		runtime.KeepAlive(far)
	})
	t.Run("sent", func(t *testing.T) {
		a, b := openSockets(t), openSockets(t)
		to, err := a.ParseEndpoint(fmt.Sprintf("127.0.0.1:%d", b.port))
		if err != nil {
			t.Fatal(err)
		}
		bufs, buffers := watched(packets)
		if err := a.Send(bufs, to); err != nil {
			t.Fatal(err)
		}
		gone(t, buffers)
		for i, b := range bufs {
			if len(b) != offset+len(packets[i]) {
				t.Errorf("the device counts %d bytes of packet %d", len(b), i)
			}
		}
		runtime.KeepAlive(a)
	})
}

// TestPacketsMayOutgrowTheirBuffers when they are encrypted.
func TestPacketsMayOutgrowTheirBuffers(t *testing.T) {
	bufs := [][]byte{make([]byte, maxPacket+1000)}
	release(bufs)
	if len(bufs[0]) != maxPacket {
		t.Errorf("%d bytes are left", len(bufs[0]))
	}
}

// TestReadingKeepsNoBuffers that an earlier read had prepared, and the last one not.
func TestReadingKeepsNoBuffers(t *testing.T) {
	s := newScatter(0)
	s.count = 40
	bufs, buffers := watched(make([][]byte, 40))
	s.lay(bufs, 0)
	s.count = 3
	next, _ := watched(make([][]byte, 40))
	s.lay(next, 0)
	gone(t, buffers)
	runtime.KeepAlive(&s)
}
