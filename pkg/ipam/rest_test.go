package ipam

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestFreedBlockRests(t *testing.T) {
	b := bookOf(t, pool4("a", 24, "10.0.0.0/23").with6(64, "fd00::/63"))
	say(b, start, "n1", "10.0.0.0/24", "fd00::/64")
	b.Delete("n1", start)
	set(b, start, "n2", "n3", "n4")
	expect(t, next(b, start), "n2 10.0.1.0/24,fd00:0:0:1::/64")
	expect(t, next(b, start.Add(DefaultRest-1)))
	expect(t, usage(b, start.Add(DefaultRest-1)), "2 1 0 1 0 0", "2 1 0 1 0 0")
	expect(t, next(b, start.Add(DefaultRest)), "n3 10.0.0.0/24,fd00::/64")
}

func TestRestCanBeOff(t *testing.T) {
	b := bookOf(t, pool4("a", 24, "10.0.0.0/24"))
	b.Rest = 0
	say(b, start, "n1", "10.0.0.0/24")
	b.Delete("n1", start)
	set(b, start, "n2")
	expect(t, next(b, start), "n2 10.0.0.0/24")
}

func TestSameNameGetsItsBlockBack(t *testing.T) {
	b := bookOf(t, pool4("a", 24, "10.0.0.0/16").with6(64, "fd00::/48"))
	say(b, start, "n1", "10.0.9.0/24", "fd00:0:0:9::/64")
	for life := range 5 {
		b.Delete("n1", start)
		b.Set(Node{Name: "n1", UID: fmt.Sprint(life), Created: 9}, start)
		set(b, start, "n0")
		expect(t, slices.DeleteFunc(next(b, start), func(g string) bool { return !strings.HasPrefix(g, "n1") }), "n1 10.0.9.0/24,fd00:0:0:9::/64")
		// After a refused write, the Node still gets its former block.
		b.Settle("n1", fmt.Sprint(life), Refused)
		expect(t, next(b, start), "n1 10.0.9.0/24,fd00:0:0:9::/64")
	}
	// Under another uid without a deletion that the watch has shown.
	b.Set(Node{Name: "n1", UID: "again", Created: 9}, start)
	expect(t, next(b, start), "n1 10.0.9.0/24,fd00:0:0:9::/64")
	b.Delete("n1", start)
	b.Delete("n0", start)
	expect(t, usage(b, start), "256 0 254 2 0 0", "65536 0 65534 2 0 0")
	expect(t, usage(b, start.Add(DefaultRest)), "256 0 256 0 0 0", "65536 0 65536 0 0 0")
}

// TestLastDeletionCounts: the end of an earlier rest does not end a later one.
func TestLastDeletionCounts(t *testing.T) {
	b := bookOf(t, pool4("a", 24, "10.0.0.0/16"))
	for life := range 3 {
		now := start.Add(time.Duration(life) * DefaultRest / 2)
		b.Set(Node{Name: "n1", UID: fmt.Sprint(life), CIDRs: []string{"10.0.9.0/24"}}, now)
		b.Delete("n1", now)
	}
	later := start.Add(2*DefaultRest - 1)
	expect(t, usage(b, later), "256 0 255 1 0 0")
	set(b, later, "n1")
	expect(t, next(b, later), "n1 10.0.9.0/24")
}

func TestGrowingIntoSecondFamilyKeepsTheFirst(t *testing.T) {
	b := bookOf(t, pool4("a", 24, "10.0.0.0/16"))
	say(b, start, "n1", "10.0.9.0/24")
	b.Delete("n1", start)
	if err := b.SetPools([]Pool{pool4("a", 24, "10.0.0.0/16").with6(64, "fd00::/48")}); err != nil {
		t.Fatal(err)
	}
	set(b, start, "n1")
	expect(t, next(b, start), "n1 10.0.9.0/24,fd00::/64")
}
