package subnet

import (
	"cmp"
	"math/bits"
	"slices"
	"sort"
)

// taken holds the numbers of a pool's leased subnets. A pool that an IPv4 network can
// have is a bitmap. Of the larger IPv6 pools it keeps only the leased spans.
type taken struct {
	count  uint64
	bitmap []uint64
	spans  []span // of a large pool: ascending, neither overlapping nor touching
}

type span struct{ first, last uint64 }

// maxBitmap is the size of the largest pool kept as a bitmap: 512 KiB.
const maxBitmap = 1 << 22

// takenOf returns what the leases take of family f's pool, except those that skip
// selects. A lease of another length takes every subnet that it overlaps.
func takenOf(p Pool, f Family, leases []Lease, skip func(*Lease) bool) *taken {
	w := p.window()
	t := &taken{count: w.count}
	var spans []span
	if t.count <= maxBitmap {
		t.bitmap = make([]uint64, (t.count+63)/64)
	} else {
		spans = make([]span, 0, len(leases))
	}
	for i := range leases {
		s := leases[i].Subnets[f]
		first, last, ok := w.span(s)
		switch {
		case !ok || !p.Within(s) || skip(&leases[i]):
		case t.bitmap != nil && first == last:
			t.bitmap[first/64] |= 1 << (first % 64)
		default:
			spans = append(spans, span{first, last})
		}
	}
	spans = merge(spans)
	if t.bitmap == nil {
		t.spans = spans
		return t
	}
	for _, s := range spans {
		for i := s.first; i <= s.last; i++ {
			t.bitmap[i/64] |= 1 << (i % 64)
		}
	}
	return t
}

// merge sorts spans and joins those that overlap or touch.
func merge(spans []span) []span {
	sort.Slice(spans, func(i, j int) bool { return spans[i].first < spans[j].first })
	merged := spans[:0]
	for _, s := range spans {
		if n := len(merged); n > 0 && s.first <= merged[n-1].last+1 {
			merged[n-1].last = max(merged[n-1].last, s.last)
			continue
		}
		merged = append(merged, s)
	}
	return merged
}

// next returns the first free subnet from i on, or count if there is none.
func (t *taken) next(i uint64) uint64 {
	if t.bitmap == nil {
		at, _ := slices.BinarySearchFunc(t.spans, i, func(s span, i uint64) int { return cmp.Compare(s.last, i) })
		if at < len(t.spans) && t.spans[at].first <= i {
			i = t.spans[at].last + 1
		}
		return min(i, t.count)
	}
	for i < t.count {
		if free := ^t.bitmap[i/64] >> (i % 64); free != 0 {
			return min(i+uint64(bits.TrailingZeros64(free)), t.count)
		}
		i = i/64*64 + 64
	}
	return t.count
}

func (t *taken) isFree(i uint64) bool { return t.next(i) == i }
