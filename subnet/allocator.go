package subnet

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"iter"
	"net/netip"
)

// Candidates returns the free subnets for the claiming node to try, in order, until
// the store grants one. leases are the leases that exist.
//
// The subnet that the node wants comes first. An order of the node's own follows:
//   - It is the same at each call, so that the node tends to get the same subnet
//     again.
//   - It differs from other nodes' orders, so that many nodes which start at once
//     seldom collide.
//
// The node's own leases do not count as taken, because the new lease replaces them.
//
// The sequence contains every free subnet. With both families on, a candidate has a
// subnet of each. The family with fewer subnets starts over until the other ends.
//
// When a family has no free subnet, the error wraps ErrOutOfSubnets. Other nodes may
// take candidates meanwhile: a caller whose candidate is refused should read the
// leases again.
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

// randomTries is how many scattered subnets a node tries before it sweeps the pool
// from one end to the other. They find a free subnet unless the pool is nearly full.
// Nodes that sweep the same gap would all collide at its end.
const randomTries = 256

// order yields every free subnet of a pool once, in an order that depends on
// identity. The order must never change: a node finds its subnet again by it. SHA-256
// of the identity gives two big-endian numbers: the start, and the stride from each
// try to the next. Two nodes that collide once have different strides and part again.
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

// coprime returns the first number from n on that shares no factor with count.
// Strides of that length visit every number below count before they repeat.
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

// pairs yields one subnet of each order at a time. An order that ends starts over
// until all have ended.
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

// endless repeats order, and calls through when it ends for the first time.
func endless(order iter.Seq[netip.Prefix], through func()) iter.Seq[netip.Prefix] {
	return func(yield func(netip.Prefix) bool) {
		for ended := through; ; ended = func() {} {
			for s := range order {
				if !yield(s) {
					return
				}
			}
			ended()
		}
	}
}
