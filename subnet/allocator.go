package subnet

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"iter"
	"net/netip"
)

// Candidates are the subnets for the claiming node to try, one pair after the
// other until the store grants one: free ones only, given the leases that
// exist. What the node wants comes first, then an order of the node's own: the
// same whenever it asks, so that it tends to get the same subnet again, and
// another than other nodes', so that many which start at once seldom meet.
// Leases of the node itself take nothing: it gives them up for the new one.
//
// Every free subnet comes up before the sequence ends. With both families on a
// candidate has one of each; the family with fewer begins again until the other
// is through.
//
// When a family has none left, the error wraps ErrOutOfSubnets. Candidates may
// be taken by others meanwhile: who is refused one does best to read the leases
// again.
func Candidates(cfg Config, leases []Lease, claim Claim) (iter.Seq[Pair[netip.Prefix]], error) {
	var orders Pair[iter.Seq[netip.Prefix]]
	for _, f := range Families {
		pool := cfg.Pools[f]
		if !pool.IsValid() {
			continue
		}
		taken := takenOf(pool, f, leases, func(l *Lease) bool { return claim.Owns(*l) && !l.IsReservation() })
		if taken.next(0) == taken.count {
			return nil, fmt.Errorf("%w: all %d %s subnets from %s to %s are leased; widen the network in the config, or delete leases of nodes that are gone",
				ErrOutOfSubnets, taken.count, f, pool.Subnet(0), pool.Subnet(taken.count-1))
		}
		orders[f] = order(pool, taken, claim.Want[f], f.String()+" "+claim.Identity())
	}
	return pairs(orders), nil
}

// randomTries is how many subnets a node tries all over the pool before it sweeps it
// from one end to the other. It finds a free one that way unless the pool is
// all but full, and where it is not, nodes that sweep would all meet at the end
// of the same gap.
const randomTries = 256

// order yields every free subnet of a pool once, in the order of the one who
// asks. The order must never change: a node finds its subnet again by it.
// SHA-256 of the identity gives two numbers, big-endian: where to start, and
// how far to go from each throw to the next, so that two who meet once part
// again.
func order(pool Pool, taken *taken, want netip.Prefix, identity string) iter.Seq[netip.Prefix] {
	hash := sha256.Sum256([]byte(identity))
	start := binary.BigEndian.Uint64(hash[0:]) % taken.count
	stride := coprime(binary.BigEndian.Uint64(hash[8:])%taken.count, taken.count)
	return func(yield func(netip.Prefix) bool) {
		tried := make(map[uint64]bool)
		try := func(i uint64) bool {
			if tried[i] || !taken.isFree(i) {
				return true
			}
			tried[i] = true
			return yield(pool.Subnet(i))
		}
		if i, _, ok := pool.window().span(want); ok && pool.Has(want) && !try(i) {
			return
		}
		at := start
		for range min(randomTries, taken.count) {
			if !try(at) {
				return
			}
			at = (at + stride) % taken.count
		}
		for i := taken.next(start); i < taken.count; i = taken.next(i + 1) {
			if !tried[i] && !yield(pool.Subnet(i)) {
				return
			}
		}
		for i := taken.next(0); i < start; i = taken.next(i + 1) {
			if !tried[i] && !yield(pool.Subnet(i)) {
				return
			}
		}
	}
}

// coprime is the first number from n on that shares no factor with count:
// strides of it pass every number below count before they come back.
func coprime(n, count uint64) uint64 {
	for gcd(n, count) != 1 {
		n++
	}
	return n
}

func gcd(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// pairs yields one subnet of each order at a time; an order that ends begins
// again, until all have ended.
func pairs(orders Pair[iter.Seq[netip.Prefix]]) iter.Seq[Pair[netip.Prefix]] {
	return func(yield func(Pair[netip.Prefix]) bool) {
		var next Pair[func() (netip.Prefix, bool)]
		running := 0
		for f, order := range orders {
			if order == nil {
				continue
			}
			running++
			var stop func()
			next[f], stop = iter.Pull(endless(order, func() { running-- }))
			defer stop()
		}
		for {
			var subnets Pair[netip.Prefix]
			for f := range subnets {
				if next[f] != nil {
					subnets[f], _ = next[f]()
				}
			}
			if running == 0 || !yield(subnets) {
				return
			}
		}
	}
}

// endless repeats order, and tells when it is through for the first time.
func endless(order iter.Seq[netip.Prefix], through func()) iter.Seq[netip.Prefix] {
	return func(yield func(netip.Prefix) bool) {
		for tell := through; ; tell = func() {} {
			for s := range order {
				if !yield(s) {
					return
				}
			}
			tell()
		}
	}
}
