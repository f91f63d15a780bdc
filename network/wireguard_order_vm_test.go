//go:build vm

package network

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tulle-net/tulle/backend/wireguard"
	"github.com/tulle-net/tulle/pkg/firewall"
	"github.com/tulle-net/tulle/pkg/kernel"
	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/subnet"
)

// slowEngine is an engine that writes nothing before until is closed.
type slowEngine struct {
	firewall.Engine
	until chan struct{}
}

func (h slowEngine) Sync(ctx context.Context, r firewall.Rules) (bool, error) {
	if h.until != nil {
		select {
		case <-h.until:
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
	return h.Engine.Sync(ctx, r)
}

// firstApply is a kernel that remembers when it was changed first.
type firstApply struct {
	*kernel.Kernel
	mu sync.Mutex
	at time.Time
}

func (k *firstApply) Apply(ctx context.Context, p netstate.Plan) error {
	k.mu.Lock()
	if k.at.IsZero() {
		k.at = time.Now()
	}
	k.mu.Unlock()
	return k.Kernel.Apply(ctx, p)
}

func (k *firstApply) time() time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.at
}

// TestWireGuardsRuleStandsFirst moves a host from vxlan under a flood of pings, with a
// route of another program past any tunnel. From the first change of the kernel on,
// nothing is readable. Without Strict it is, so the test would see a packet that leaves
// between that change and the rule.
func TestWireGuardsRuleStandsFirst(t *testing.T) {
	for _, strict := range []bool{true, false} {
		t.Run(fmt.Sprintf("Strict=%t", strict), func(t *testing.T) {
			c := newCluster(t, config(v4, `{"Type": "vxlan"}`), 2)
			a, b := c.host[0], c.host[1]
			c.start()
			c.pingAll()
			a.end()
			b.end() // its kernel and its lease stay those of vxlan
			c.store.SetConfig(config(v4, fmt.Sprintf(`{"Type": "wireguard", "Strict": %t}`, strict)))
			from, to := a.pod(subnet.IPv4), b.pod(subnet.IPv4)
			a.ns.IP(t, "route add "+to.String()+"/32 via 198.18.0.2 dev eth0")
			wire := a.capture()
			pings := a.ns.Command("ping", "-n", "-q", "-i", "0.002", "-p", hex.EncodeToString([]byte(marker)), "-s", "200", "-I", from.String(), to.String())
			if err := pings.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = pings.Process.Kill(); _ = pings.Wait() }()
			sees := func(after time.Time) func() error {
				return func() error {
					if !wire.lastReadable().After(after) {
						return errors.New("no readable frame")
					}
					return nil
				}
			}
			a.hold = make(chan struct{})
			a.start()
			kerneltest.Eventually(t, slow, func() error {
				if got := a.own().BackendType; got != wireguard.Type {
					return fmt.Errorf("node 1 still publishes %s", got)
				}
				return nil
			})
			kerneltest.Eventually(t, slow, sees(time.Now()))
			if strict {
				if at := a.first.time(); !at.IsZero() {
					t.Error("the kernel was changed before the rule")
				}
				if out := a.ns.IP(t, "link show type wireguard"); out != "" {
					t.Errorf("there is already\n%s", out)
				}
			}
			close(a.hold)
			a.ready(0)
			first := a.first.time()
			if !strict {
				kerneltest.Eventually(t, slow, sees(time.Now()))
				return
			}
			if last := wire.lastReadable(); last.After(first) {
				t.Errorf("a frame was readable %s after the first change of the kernel", last.Sub(first))
			}
			if plain, _ := wire.counts(); plain == 0 {
				t.Error("the capture saw nothing before")
			}
			kerneltest.Eventually(t, slow, func() error {
				if n, known := a.agent.Firewall.Dropped(t.Context()); n == 0 || !known {
					return fmt.Errorf("the rule has dropped %d, %t", n, known)
				}
				return nil
			})
			if last := wire.lastReadable(); last.After(first) {
				t.Errorf("a frame was readable %s after the first change of the kernel", last.Sub(first))
			}
			if got := a.agent.Report(t.Context()).WireGuard; got == nil || !strings.Contains(fmt.Sprint(got.Dropped), "past-tunnel") {
				t.Errorf("the report has %+v", got)
			}
		})
	}
}
