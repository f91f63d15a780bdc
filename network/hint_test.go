package network

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/hostif"
	"github.com/tulle-net/tulle/pkg/test/bubbletest"
	"github.com/tulle-net/tulle/subnet"
)

// hints returns Options.Hints with specs, one after the other.
func hints(specs <-chan hostif.Spec) func(context.Context, func(hostif.Spec)) {
	return func(ctx context.Context, to func(hostif.Spec)) {
		for {
			select {
			case s := <-specs:
				to(s)
			case <-ctx.Done():
				return
			}
		}
	}
}

func published(a string) hostif.Spec {
	return hostif.Spec{Published: subnet.Pair[netip.Addr]{netip.MustParseAddr(a)}}
}

// TestHintsAreFollowed checks that the host publishes what the store's hints require,
// and nothing before the first hint. It follows changes and removals.
func TestHintsAreFollowed(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		specs := make(chan hostif.Spec)
		l := newLife(t, plainConfig)
		l.hints = hints(specs)
		l.start()
		l.soon()
		l.wantReady(false, "reading this Node's addresses")
		if leases := l.store.Leases(); len(leases) > 0 {
			t.Fatalf("published %v", leases)
		}
		for _, c := range []struct {
			spec hostif.Spec
			want string
		}{{published("203.0.113.1"), "203.0.113.1"}, {published("203.0.113.2"), "203.0.113.2"}, {hostif.Spec{}, "198.18.0.1"}} {
			specs <- c.spec
			l.after(5 * time.Second)
			l.wantReady(true)
			if got := l.own().PublicIP[subnet.IPv4]; got != netip.MustParseAddr(c.want) {
				t.Errorf("published %s, want %s", got, c.want)
			}
		}
	})
}

// TestHintsAreRememberedWithoutStore boots a host while its store is away. The host
// publishes the same as before, until the store returns another hint.
func TestHintsAreRememberedWithoutStore(t *testing.T) {
	for _, knowsConfig := range []bool{false, true} {
		bubbletest.Test(t, func(t *testing.T) {
			specs := make(chan hostif.Spec)
			l := newLife(t, plainConfig)
			l.hints = hints(specs)
			l.out.StateDir = t.TempDir()
			l.peer(9)
			l.start()
			specs <- published("203.0.113.1")
			l.after(time.Minute)
			l.wantReady(true)
			l.stop()

			l.host, l.files = newFakeHost(), &fakeFiles{} // a reboot
			if knowsConfig {                              // as with a config in a file
				l.store.delayed = make(chan struct{})
			} else {
				l.store.leave()
			}
			l.start()
			l.after(10 * time.Second)
			l.wantReady(true, "store unreachable", "1 peers")
			l.wantRoute("10.5.9.0/24", true)
			if got := l.view().Own.PublicIP[subnet.IPv4]; got != netip.MustParseAddr("203.0.113.1") {
				t.Errorf("publishes %s", got)
			}
			if knowsConfig {
				close(l.store.delayed)
			} else {
				l.store.comeBack()
			}
			specs <- published("203.0.113.2")
			l.after(10 * time.Second)
			l.wantReady(true)
			if got := l.own().PublicIP[subnet.IPv4]; got != netip.MustParseAddr("203.0.113.2") {
				t.Errorf("published %s", got)
			}
		})
	}
}
