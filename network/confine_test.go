package network

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/tulle-net/tulle/backend"
	"github.com/tulle-net/tulle/backend/backendtest"
	"github.com/tulle-net/tulle/backend/wireguard"
	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/pkg/test/bubbletest"
	"github.com/tulle-net/tulle/pkg/wgkey"
	"github.com/tulle-net/tulle/subnet"
)

// slowFirewall is a firewall whose rules are written when written is closed.
type slowFirewall struct {
	fakeFirewall
	written chan struct{}
}

func (f *slowFirewall) Await(ctx context.Context) error {
	select {
	case <-f.written:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// TestKernelWaitsForTheConfiningRules, and for no others.
func TestKernelWaitsForTheConfiningRules(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		host, rules := newFakeHost(), &slowFirewall{written: make(chan struct{})}
		a := &Agent{Options: Options{Kernel: host, Firewall: rules}}
		link := func(name string) netstate.Plan {
			return netstate.Plan{{Verb: netstate.Create, Object: netstate.Link{Name: name, Kind: netstate.TunnelWireGuard}}}
		}
		if err := (confined{a}).Apply(t.Context(), link("tulle.1")); err != nil {
			t.Errorf("without confined packets: %v", err)
		}
		a.confining.Store(true)
		done := make(chan error, 1)
		go func() { done <- confined{a}.Apply(t.Context(), link("tulle.2")) }()
		synctest.Wait()
		select {
		case err := <-done:
			t.Fatalf("it did not wait: %v", err)
		default:
		}
		close(rules.written)
		if err := <-done; err != nil {
			t.Error(err)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		rules.written = make(chan struct{})
		if err := (confined{a}).Apply(ended, link("tulle.3")); err == nil {
			t.Error("it changed the kernel without the rules")
		}
	})
}

// TestStrictNeedsAFirewall refuses the backend where no rules are written.
func TestStrictNeedsAFirewall(t *testing.T) {
	for keys, refused := range map[string]bool{"": true, `, "Strict": false`: false} {
		a := &Agent{Options: Options{
			Unfiltered: "--filter=none", Backends: map[string]backend.Factory{wireguard.Type: wireguard.New},
			Keys: wgkey.NewStore(t.TempDir(), "", "node"),
		}}
		b, err := a.makeBackend(backendtest.Config(t, wireguard.Type, backendtest.V4, keys))
		if got := err != nil && strings.Contains(err.Error(), "--filter=none") && strings.Contains(err.Error(), "Backend.Strict"); got != refused {
			t.Errorf("%q: %v", keys, err)
		}
		if c, ok := b.(backend.Confiner); !refused && (!ok || c.Confined() != subnet.Pair[[2]string]{}) {
			t.Errorf("%q: %v", keys, b)
		}
	}
}
