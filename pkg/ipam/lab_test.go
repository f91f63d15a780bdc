package ipam

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// start is when the tests begin.
var start = time.Unix(1_000_000, 0).UTC()

func bookOf(t *testing.T, pools ...Pool) *Book {
	t.Helper()
	b, err := New(pools)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// set records Nodes by their names. Each later one is younger.
func set(b *Book, now time.Time, names ...string) {
	for _, name := range names {
		b.Set(Node{Name: name, UID: name, Created: int64(len(b.nodes))}, now)
	}
}

// say records a Node that has podCIDRs.
func say(b *Book, now time.Time, name string, cidrs ...string) {
	b.Set(Node{Name: name, UID: name, CIDRs: cidrs, Created: int64(len(b.nodes))}, now)
}

// next returns what Next grants, as "name CIDR,CIDR".
func next(b *Book, now time.Time) (granted []string) {
	grants, _ := b.Next(now, 1000)
	for _, g := range grants {
		granted = append(granted, g.Node+" "+strings.Trim(strings.ReplaceAll(fmt.Sprint(g.CIDRs), " ", ","), "[]"))
	}
	return granted
}

func expect(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// codes returns what is found, as "name code".
func codes(b *Book) (found []string) {
	for f := range b.Findings() {
		found = append(found, f.Node+" "+string(f.Code))
	}
	return found
}

// usage returns total, used, free, resting, reserved and draining of each pool and
// family.
func usage(b *Book, now time.Time) (all []string) {
	for _, u := range b.Usage(now) {
		all = append(all, fmt.Sprint(u.Total, u.Used, u.Free, u.Resting, u.Reserved, u.Draining))
	}
	return all
}
