package probe

import (
	"bytes"
	"testing"
	"time"
)

func TestPacket(t *testing.T) {
	now := time.Unix(1700000000, 123456789)
	for _, size := range []int{0, minPacket, 100, 1422, 65507} {
		for _, kind := range []byte{request, bareRequest} {
			b := newRequest(kind, 77, size, NewTag("x"))
			if len(b) != max(size, minPacket) {
				t.Errorf("%d bytes of %d", len(b), size)
			}
			if _, ok := readAnswer(b, 77, size); ok {
				t.Error("a request is its own answer")
			}
			bare, ok := toAnswer(b, now)
			if !ok || bare != (kind == bareRequest) {
				t.Errorf("%c: %t, %t", kind, bare, ok)
			}
			if _, again := toAnswer(bytes.Clone(b), now); again {
				t.Error("an answer is answered: two daemons would do so forever")
			}
			if clock, ok := readAnswer(b, 77, size); !ok || !clock.Equal(now) {
				t.Errorf("%s, %t", clock, ok)
			}
			if _, ok := readAnswer(b, 78, size); ok {
				t.Error("another's answer is taken")
			}
		}
	}
}

func FuzzToAnswer(f *testing.F) {
	f.Add(newRequest(request, 1, 40, Tag{}))
	f.Add(newRequest(bareRequest, 1, 0, Tag{}))
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, b []byte) {
		before := len(b)
		if _, ok := toAnswer(b, time.Unix(1, 0)); ok && (len(b) != before || string(b[:kindAt]) != magic || b[kindAt] != answer) {
			t.Errorf("%q", b)
		}
		readAnswer(b, 1, len(b))
	})
}
