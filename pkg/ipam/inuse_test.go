package ipam

import (
	"testing"
	"time"
)

// TestPoolIsInUseUntilItsLastNodeHasGone: a pool is in use from the grant of a block until
// its last Node is deleted. A resting block does not count.
func TestPoolIsInUseUntilItsLastNodeHasGone(t *testing.T) {
	b := bookOf(t, pool4("a", 24, "10.0.0.0/16"))
	inUse := func(when string, want bool) {
		t.Helper()
		if got := b.InUse("a"); got != want {
			t.Errorf("%s: %v, want %v", when, got, want)
		}
	}
	inUse("without a Node", false)
	set(b, start, "n0")
	inUse("with a Node that waits", false)
	expect(t, next(b, start), "n0 10.0.0.0/24")
	inUse("with a grant", true)
	b.Settle("n0", "n0", Ambiguous)
	inUse("with a write without an answer", true)
	b.Settle("n0", "n0", Refused)
	inUse("with a refused write", false)
	expect(t, next(b, start), "n0 10.0.0.0/24")
	b.Set(Node{Name: "n0", UID: "n0", CIDRs: []string{"10.0.0.0/24"}, Deleting: true}, start)
	inUse("with a Node that is being deleted", true)
	b.Delete("n0", start)
	inUse("with a block that rests", false)
}

// TestBlockLengthDistinguishesPools: of two pools with the same range, the length of a block
// shows its pool. A block of another length counts for both.
func TestBlockLengthDistinguishesPools(t *testing.T) {
	b := bookOf(t, pool4("24", 24, "10.0.0.0/16"), pool4("26", 26, "10.0.0.0/16"), pool4("other", 24, "10.1.0.0/16"))
	for _, c := range []struct {
		cidr     string
		in, in26 bool
	}{
		{"10.0.1.0/24", true, false},
		{"10.0.1.0/26", false, true},
		{"10.0.1.0/28", true, true},
		{"10.0.0.0/8", true, true},
		{"10.1.0.0/24", false, false},
	} {
		b.Set(Node{Name: "n", UID: c.cidr, CIDRs: []string{c.cidr}}, start)
		if got, got26 := b.InUse("24"), b.InUse("26"); got != c.in || got26 != c.in26 {
			t.Errorf("%s: %v and %v, want %v and %v", c.cidr, got, got26, c.in, c.in26)
		}
	}
	if b.InUse("none") {
		t.Error("a pool that does not exist is in use")
	}
}

// TestZeroRestFreesBlocksAtOnce: without a rest, a block is free as soon as its Node is
// deleted.
func TestZeroRestFreesBlocksAtOnce(t *testing.T) {
	b := bookOf(t, pool4("a", 24, "10.0.0.0/23"))
	b.Rest = 0
	set(b, start, "n0", "n1")
	expect(t, next(b, start), "n0 10.0.0.0/24", "n1 10.0.1.0/24")
	b.Delete("n0", start)
	set(b, start, "n2")
	expect(t, next(b, start), "n2 10.0.0.0/24")
	for f := range b.Findings() {
		t.Errorf("%+v", f)
	}
	if u := b.Usage(start.Add(time.Hour))[0]; u.Used != 2 || u.Resting != 0 {
		t.Errorf("%+v", u)
	}
}
