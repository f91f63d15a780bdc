package probe

import (
	"fmt"
	"slices"
	"sort"
	"time"
)

const (
	clocks = 64              // the number of peers' clocks that are compared
	drift  = 2 * time.Second // smaller differences are normal
)

// clock is by how much a peer's clock is ahead of ours.
type clock struct {
	peer, name string
	ahead      time.Duration
}

// wrongClocks returns the nodes whose clocks are off. The majority counts as right.
func wrongClocks(all []clock) (off []string) {
	if len(all) == 0 {
		return nil
	}
	if len(all) == 1 {
		if c := all[0]; c.ahead.Abs() > drift {
			off = append(off, fmt.Sprintf("the clocks of this node and of %s differ by %s; let NTP set both", c.name, round(c.ahead.Abs())))
		}
		return off
	}
	order := slices.Clone(all)
	// Ours is one of them, with a difference of zero.
	order = append(order, clock{})
	sort.Slice(order, func(i, j int) bool { return order[i].ahead < order[j].ahead })
	right := order[len(order)/2].ahead
	if right.Abs() > drift {
		off = append(off, fmt.Sprintf("this node's clock is %s most others; let NTP set it (timedatectl)", side(-right)))
	}
	for _, c := range all {
		if d := c.ahead - right; d.Abs() > drift {
			if off = append(off, fmt.Sprintf("the clock of %s is %s most others; let NTP set it there", c.name, side(d))); len(off) > 5 {
				break
			}
		}
	}
	return off
}

func side(d time.Duration) string {
	if d < 0 {
		return round(-d).String() + " behind"
	}
	return round(d).String() + " ahead of"
}

func round(d time.Duration) time.Duration { return d.Round(100 * time.Millisecond) }
