package subnet

import (
	"math"
	"slices"
	"strings"
)

// KnowAll makes the table know every rejected lease in detail, for a caller that lists
// them.
func (t *Table) KnowAll() { t.detailed, t.longest = math.MaxInt, math.MaxInt }

// CountRejected returns the number of rejected leases.
func (t *Table) CountRejected() int { return len(t.rejected) + len(t.surplus) + len(t.unfits) }

// FirstRejected returns the first n of the rejected leases that are known in detail,
// sorted by key.
func (t *Table) FirstRejected(n int) []*LeaseError {
	first := make([]*LeaseError, 0, n+1)
	for _, e := range t.rejected {
		i, _ := slices.BinarySearchFunc(first, e, func(a, b *LeaseError) int { return strings.Compare(a.Key, b.Key) })
		if first = slices.Insert(first, i, e); len(first) > n {
			first = first[:n]
		}
	}
	return first
}

// Rejected returns all rejected leases that are known in detail, sorted by key.
func (t *Table) Rejected() []*LeaseError {
	rejected := make([]*LeaseError, 0, len(t.rejected))
	for _, e := range t.rejected {
		rejected = append(rejected, e)
	}
	slices.SortFunc(rejected, func(a, b *LeaseError) int { return strings.Compare(a.Key, b.Key) })
	return rejected
}
