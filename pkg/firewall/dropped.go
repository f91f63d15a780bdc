package firewall

import (
	"context"

	"github.com/tulle-net/tulle/subnet"
)

// Dropped returns how many packets the rules of Rules.Confines have dropped since they
// were written. known is false if no such rules are wanted, or they cannot be read.
func (k *Keeper) Dropped(ctx context.Context) (packets uint64, known bool) {
	k.mu.Lock()
	confines := k.want.Confined != subnet.Pair[[2]string]{}
	var counts []func(context.Context) (uint64, error)
	for _, p := range k.parts {
		if p.Dropped != nil && p.done > 0 {
			counts = append(counts, p.Dropped)
		}
	}
	k.mu.Unlock()
	if !confines {
		return 0, false
	}
	for _, count := range counts {
		n, err := count(ctx)
		if err != nil {
			return 0, false
		}
		packets += n
		known = true
	}
	return packets, known
}
