package subnet

import (
	"fmt"
	"strings"
	"testing"
)

// Whatever order keys come and go in, all unreadable ones count, once each.
func TestUnreadableKeysAreCounted(t *testing.T) {
	table := NewTable(Config{}, Lease{})
	bad := func(key string) *LeaseError { return &LeaseError{Key: key, Err: ErrKey} }
	want := func(n int) {
		t.Helper()
		if got := table.CountRejected(); got != n {
			t.Errorf("%d rejected, want %d", got, n)
		}
	}
	var all []*LeaseError
	var keys []string
	for i := range 2 * mostUnreadable {
		keys = append(keys, fmt.Sprintf("key-%d", i))
		all = append(all, bad(keys[i]))
	}
	table.Apply(Update{Complete: true, Bad: all})
	want(2 * mostUnreadable)
	table.Apply(Update{Bad: all}) // written again
	want(2 * mostUnreadable)
	long := strings.Repeat("x", longestDetailed+1)
	table.Apply(Update{Bad: []*LeaseError{bad(long)}})
	want(2*mostUnreadable + 1)
	table.Apply(Update{Gone: append(keys[:len(keys)/2:len(keys)/2], long)})
	want(mostUnreadable)
	table.Apply(Update{Bad: all[:10]})
	want(mostUnreadable + 10)
	table.Apply(Update{Complete: true, Bad: all[:3]})
	want(3)
	if got := table.FirstRejected(2); len(got) != 2 || got[0].Key != "key-0" || got[1].Key != "key-1" {
		t.Errorf("the first two: %v", got)
	}
	table.Apply(Update{Complete: true})
	want(0)
}
