package network

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tulle-net/tulle/pkg/identity"
	"github.com/tulle-net/tulle/pkg/status"
	"github.com/tulle-net/tulle/pkg/test/bubbletest"
	"github.com/tulle-net/tulle/subnet"
)

// identify gives a life an identity that is saved in its state folder.
func (l *life) identify(id string) {
	l.t.Helper()
	if l.out.StateDir == "" {
		l.out.StateDir = l.t.TempDir()
	}
	l.identity = identity.Open(identity.Options{
		Dir: l.out.StateDir, Node: subnet.Node{ID: id, Name: "one"}, Fix: "a command",
		Hardware: identity.Hardware{MACs: []string{"02:00:00:00:00:01"}},
	})
}

// mine returns the lease at the node's own address.
func (l *life) mine() subnet.Lease {
	l.t.Helper()
	for _, lease := range l.store.Leases() {
		if lease.PublicIP[subnet.IPv4] == netip.MustParseAddr("198.18.0.1") {
			return lease
		}
	}
	l.t.Fatalf("the node has no lease; %s", l.view().Line())
	return subnet.Lease{}
}

// lives holds a lease until end is called.
func (l *life) lives(lease subnet.Lease) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = l.store.Hold(ctx, lease) }()
	synctest.Wait()
	return func() { cancel(); <-ended }
}

func (l *life) cloneOf() *status.Clone {
	l.t.Helper()
	return l.agent.Report(l.t.Context()).Clone
}

// TestCloneIsReportedWhileItLives starts a machine whose ID a living machine has. The
// status reports the clone as long as both live.
func TestCloneIsReportedWhileItLives(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		l := newLife(t, plainConfig)
		l.identify("machine-9")
		first := l.peer(9)
		first.Node.Name, first.Node.Instance = "nine", "b"
		first = l.store.Put(first)
		end := l.lives(first)
		for range 2 {
			l.start()
			l.soon()
			l.wantReady(true, "1 peers")
			l.wantRoute("10.5.9.0/24", true)
			own := l.mine()
			if subnet.SharedID(own.Node.ID) != "machine-9" || own.Node.ID == "machine-9" || own.Node.Instance != l.identity.Node().Instance || l.agent.node() != l.identity.Node() {
				t.Errorf("it publishes %+v", own.Node)
			}
			c := l.cloneOf()
			if c == nil || c.ID != "machine-9" || c.Name != "nine" || len(c.Addresses) != 1 || c.Addresses[0] != netip.MustParseAddr("198.18.0.9") || c.Fix != "a command" || c.Since.IsZero() {
				t.Fatalf("it is a clone of %+v", c)
			}
			if n := l.log.Count("Another machine has this machine's ID"); n != 1 {
				t.Errorf("it warned %d times", n)
			}
			l.after(time.Minute)
			l.stop()
			l.identify("machine-9")
		}
		// The other machine gets an ID of its own.
		l.start()
		l.soon()
		end()
		first.Node.ID = "machine-10"
		l.store.Put(first)
		l.soon()
		if c := l.cloneOf(); c != nil {
			t.Errorf("it is still a clone of %+v", c)
		}
		// A third copy is a clone too.
		at := byte(7)
		if strings.HasPrefix(l.mine().Key(), "10.5.7.") { // chosen at random
			at = 8
		}
		third := l.peer(at)
		third.Node = subnet.Node{ID: subnet.CloneID("machine-9", "0123456789abcdef"), Name: "seven", Instance: "c"}
		l.store.Put(third)
		l.soon()
		if c := l.cloneOf(); c == nil || c.Name != "seven" {
			t.Errorf("beside a third copy it is a clone of %+v", c)
		}
		l.store.Delete(third.Key())
		l.soon()
		if c := l.cloneOf(); c != nil {
			t.Errorf("it is still a clone of %+v", c)
		}
		// This machine gets an ID of its own, too.
		own := l.mine()
		l.stop()
		l.identify("another")
		l.start()
		l.soon()
		if now := l.mine(); now.Node.ID != "another" || now.Subnets != own.Subnets || now.BackendData != own.BackendData {
			t.Errorf("it has %+v, and had %+v", now, own)
		}
	})
}

// TestSimultaneousClonesSeparate runs two machines that publish one ID at the same
// time. The one with the older lease keeps it. What the other one publishes stays,
// except for values that both have.
func TestSimultaneousClonesSeparate(t *testing.T) {
	for name, c := range map[string]struct {
		elder   bool // the other's lease is older
		sameMAC bool
	}{"the elder": {}, "the younger": {elder: true}, "the younger with the same MAC": {true, true}} {
		t.Run(name, func(t *testing.T) {
			bubbletest.Test(t, func(t *testing.T) {
				l := newLife(t, plainConfig)
				l.identify("machine-1")
				var other subnet.Lease
				if c.elder {
					other = l.peer(9)
				}
				l.start()
				l.soon()
				own, device := l.mine(), l.host.device()
				if !c.elder {
					other = l.peer(9)
				}
				other.Node = subnet.Node{ID: "machine-1", Name: "nine", Instance: "b"}
				if c.sameMAC {
					other.BackendData = own.BackendData
				}
				l.store.Put(other)
				l.soon()
				now := l.mine()
				if now.Subnets != own.Subnets || (now.Node.ID == "machine-1") == c.elder || subnet.SharedID(now.Node.ID) != "machine-1" {
					t.Errorf("it has %s as %s, and had %s", now.Key(), now.Node.ID, own.Key())
				}
				if (now.BackendData == own.BackendData) == c.sameMAC || (l.host.device().MAC == device.MAC) == c.sameMAC {
					t.Errorf("it publishes %v, and did %v", now.BackendData, own.BackendData)
				}
				if (l.cloneOf() != nil) != c.elder {
					t.Errorf("it is a clone of %+v", l.cloneOf())
				}
				l.wantReady(true)
				l.wantRoute("10.5.9.0/24", true)
				if l.log.Count("LOST") > 0 {
					t.Errorf("it says %s", l.log)
				}
			})
		})
	}
}

// TestSavedNetworkIsOfOneInstallation checks that another installation with the same ID
// does not use the saved network. The successor of an older tulled uses it.
func TestSavedNetworkIsOfOneInstallation(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(l *life)
		used  bool
	}{
		"the same": {func(*life) {}, true},
		"another installation": {func(l *life) {
			if err := os.Remove(identity.Path(l.out.StateDir)); err != nil {
				l.t.Fatal(err)
			}
		}, false},
		"an older tulled's": {func(l *life) {
			path := filepath.Join(l.out.StateDir, "snapshot")
			if err := os.Remove(identity.Path(l.out.StateDir)); err != nil {
				l.t.Fatal(err)
			}
			l.stop()
			l.identity = nil
			l.node = "machine-1"
			l.start()
			l.after(time.Minute)
			l.stop()
			text, err := os.ReadFile(path)
			if err != nil || strings.Contains(string(text), "Instance") {
				l.t.Fatalf("%s, %v", text, err)
			}
		}, true},
		"of an installation that lives elsewhere": {func(l *life) {
			l.elsewhere = func(context.Context, subnet.Lease) bool { return true }
		}, false},
		"of an installation that no longer answers": {func(l *life) {
			l.elsewhere = func(context.Context, subnet.Lease) bool { return false }
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			bubbletest.Test(t, func(t *testing.T) {
				l := newLife(t, plainConfig)
				l.identify("machine-1")
				l.start()
				l.after(time.Minute)
				if name != "an older tulled's" {
					l.stop()
				}
				c.spoil(l)
				l.identify("machine-1")
				l.store.leave()
				l.start()
				l.after(10 * time.Second)
				l.wantReady(c.used)
				if !c.used {
					l.wantReady(false, "no subnet yet")
				}
				l.store.comeBack()
				l.after(10 * time.Second)
				l.wantReady(true)
			})
		})
	}
}
