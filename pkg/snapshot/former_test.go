package snapshot

import (
	"testing"

	"github.com/tulle-net/tulle/subnet"
)

// TestFormerBackendsAreKept saves a host in the middle of a move.
func TestFormerBackendsAreKept(t *testing.T) {
	s, dir := small(t), t.TempDir()
	s.Former[0] = subnet.Backend{Type: "vxlan"} // of a config without a Backend
	s.Former[1] = subnet.Backend{Type: "udp", Raw: `{"Type":"udp","Port":8286}`}
	save(t, dir, s)
	head, err := LoadHead(dir, source)
	if err != nil {
		t.Fatal(err)
	}
	want := s.Former
	want[0].Raw = `{"Type":"vxlan"}`
	if head.Former != want {
		t.Errorf("got %+v, want %+v", head.Former, want)
	}
}
