package route

import (
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/cloud"
)

// TestKillsLeaveNothingUnexplained kills processes at any moment, with late and lost writes.
// Each route is in the ledger before it is in the cloud. Once the controller has settled, every
// Node is routed, no leftover route exists, and foreign routes are unchanged.
func TestKillsLeaveNothingUnexplained(t *testing.T) {
	for seed := range uint64(12) {
		inLab(t, func(l *lab) {
			if seed%2 > 0 {
				l.limit(300) // the ledger has many parts
			}
			rnd := rand.New(rand.NewPCG(seed, 1))
			dice := rand.New(rand.NewPCG(seed, 2)) // only the cloud's lock protects it
			foreign := cloud.Route{Destination: netip.MustParsePrefix("10.4.200.0/24"), Kind: cloud.ToInterface, Target: "nic-other"}
			l.cloud.Put("rtb-a", foreign)
			late := make(chan struct{})
			l.cloud.Do(func() {
				l.cloud.Before = func(c cloud.RouteChange) {
					if c.Verb != cloud.Remove {
						go l.wantNoted(c) // the cloud's lock is held
					}
				}
				l.cloud.Hold = func(cloud.RouteChange) <-chan struct{} {
					if dice.IntN(6) == 0 {
						return late
					}
					return nil
				}
				l.cloud.Lose = func(cloud.RouteChange) error {
					if dice.IntN(6) == 0 {
						return &cloud.Error{Kind: cloud.Unavailable, Action: "CreateRoute", Text: "the answer is lost"}
					}
					return nil
				}
			})
			l.Begin()
			live := make(map[int]bool)
			for range 25 {
				switch i := rnd.IntN(12); {
				case live[i]:
					l.remove(i)
					delete(live, i)
				default:
					l.add(i)
					live[i] = true
				}
				l.Pass(time.Duration(rnd.IntN(400)) * time.Millisecond)
				if rnd.IntN(3) == 0 {
					l.crash()
				}
				if rnd.IntN(8) == 0 {
					l.cloud.Do(func() { close(late); late = make(chan struct{}) })
				}
			}
			l.add(100)
			l.cloud.Do(func() { close(late); l.cloud.Hold, l.cloud.Lose = nil, nil })
			l.Pass(30 * time.Minute)
			l.wantRouted(100)
			for i := range live {
				l.wantRouted(i)
			}
			routes := l.cloud.Targets("rtb-a")
			if routes["10.4.200.0/24"] != "nic-other" || len(routes) != len(live)+2 || len(l.cloud.Targets("rtb-b")) != len(live)+1 {
				t.Errorf("seed %d: %v, %d Nodes", seed, routes, len(live)+1)
			}
			l.wantExplained("10.4.200.0/24")
			if n := len(l.entries()); n != len(live)+1 {
				t.Errorf("seed %d: the ledger has %d entries for %d Nodes", seed, n, len(live)+1)
			}
		})
	}
}

// TestTwoLeaders: two processes that both believe that they lead do no harm. The API server
// refuses the ledger's write of one of them, which then reads the other's write.
func TestTwoLeaders(t *testing.T) {
	inLab(t, func(l *lab) {
		l.Begin()
		first := l.Replica
		l.start()
		l.Begin()
		for i := range 30 {
			l.add(i)
			l.Pass(50 * time.Millisecond)
		}
		for i := range 10 {
			l.remove(i)
		}
		l.Pass(20 * time.Minute)
		for i := 10; i < 30; i++ {
			l.wantRouted(i)
		}
		l.wantExplained()
		if n := len(l.cloud.Targets("rtb-a")); n != 20 || len(l.entries()) != 20 {
			t.Errorf("%d routes, %d entries", n, len(l.entries()))
		}
		first.Kill()
	})
}
