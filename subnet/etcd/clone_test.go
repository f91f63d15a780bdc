package etcd

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/retry"
	"github.com/tulle-net/tulle/subnet"
)

// TestCloneLeasesItsOwn starts two machines of one image. The second leaves the
// first's lease alone, and keeps its own through a restart.
func TestCloneLeasesItsOwn(t *testing.T) {
	for name, instance := range map[string]string{"of an image": "", "with its state folder": "00000000000000aa"} {
		t.Run(name, func(t *testing.T) {
			h := newHosts(t)
			first, second := h.copy(1, instance).mustStart(), h.copy(2, instance).mustStart()
			if first.forks != 0 || second.forks != 1 {
				t.Errorf("the first gave its ID up %d times, the second %d times", first.forks, second.forks)
			}
			h.wantOwn(first, second)
			for _, m := range []*machine{second, first, second} {
				was := m.own
				m.stop()
				m.restart()
				if m.mustStart(); m.own.Subnets != was.Subnets || m.forks > 1 {
					t.Errorf("%s had %s and has %s, forks %d", m.claim.Holder(), was.Key(), m.own.Key(), m.forks)
				}
			}
			h.wantOwn(first, second)
			h.wantHistory()
		})
	}
}

// TestFiftyClonesAtOnce starts fifty machines of one image on an empty etcd.
func TestFiftyClonesAtOnce(t *testing.T) {
	const dual = `{"Network": "10.5.0.0/16", "EnableIPv6": true, "IPv6Network": "fd00:5::/48"}`
	for _, config := range []string{network, dual} {
		for name, instance := range map[string]string{"of an image": "", "with its state folder": "00000000000000aa"} {
			t.Run(fmt.Sprintf("%s, dual %t", name, config == dual), func(t *testing.T) {
				h := newHosts(t)
				h.SetConfig(config)
				var all []*machine
				for n := range 50 {
					all = append(all, h.copy(n+1, instance))
				}
				var starting sync.WaitGroup
				for _, m := range all {
					starting.Go(func() {
						if err := m.start(); err != nil {
							t.Error(err)
						}
					})
				}
				starting.Wait()
				h.wantOwn(all...)
				h.wantHistory()
			})
		}
	}
}

// TestCloneStartsLongAfter: a machine that has run for long is as alive as one that
// has just started.
func TestCloneStartsLongAfter(t *testing.T) {
	t.Parallel()
	h := newHosts(t)
	first := h.copy(1, "").mustStart()
	began := time.Now()
	kerneltest.Eventually(t, patience, func() error {
		status := first.store.Status()
		if left := status.LeaseEnds.Sub(status.Renewed); left != first.store.options.TTL {
			return fmt.Errorf("the lease ends %s after its renewal", left)
		}
		if since := status.Renewed.Sub(began); since < 4*first.store.heartbeat() {
			return fmt.Errorf("it was renewed last %s after its start", since)
		}
		return nil
	})
	second := h.copy(2, "").mustStart()
	h.wantOwn(first, second)
	h.wantHistory()
}

// TestCloneOfMachineThatIsDown: the clone starts while the machine is down, soon
// after or when it counts as gone. The machine returns, and neither fights.
func TestCloneOfMachineThatIsDown(t *testing.T) {
	for name, long := range map[string]bool{"for a moment": false, "for long": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHosts(t)
			first := h.copy(1, "").mustStart()
			was := first.own
			first.stop()
			if long {
				first.stale()
			}
			second := h.copy(2, "").mustStart()
			if inherited := second.own.Subnets == was.Subnets; inherited != long {
				t.Errorf("the clone has the subnet of the machine that is down: %t", inherited)
			}
			first.restart()
			first.mustStart()
			h.wantOwn(first, second)
			var may []string
			if long {
				may = append(may, was.Key())
			}
			h.wantHistory(may...)
			// Restart both: nothing changes any more.
			for _, m := range []*machine{first, second} {
				had := m.own
				m.stop()
				m.stale()
				m.restart()
				if m.mustStart(); m.own.Subnets != had.Subnets {
					t.Errorf("%s had %s and has %s", m.claim.Holder(), had.Key(), m.own.Key())
				}
			}
			h.wantOwn(first, second)
			h.wantHistory(may...)
		})
	}
}

// TestSilentMachineThatAnswersLives: a machine that is long cut off from etcd but
// answers at its address is alive.
func TestSilentMachineThatAnswersLives(t *testing.T) {
	t.Parallel()
	h := newHosts(t)
	first := h.copy(1, "").mustStart()
	first.stop()
	h.lives[first.at()] = first.claim.Node.Instance
	first.stale()
	second := h.copy(2, "").mustStart()
	h.wantOwn(first, second)
	h.wantHistory()
}

// TestRenumberedMachineKeepsItsSubnet: a renumbered or reinstalled machine keeps its
// subnet.
func TestRenumberedMachineKeepsItsSubnet(t *testing.T) {
	for name, c := range map[string]struct {
		change func(m *machine)
		gone   bool // before it starts again
	}{
		"another address": {change: func(m *machine) { m.claim.PublicIP = claim(7).PublicIP }},
		"another address that another machine had": {change: func(m *machine) {
			m.lives[m.at()] = "another"
			m.claim.PublicIP = claim(7).PublicIP
		}},
		"reinstalled":                       {change: func(m *machine) { m.claim.Node.Instance = m.instance() }},
		"another ID":                        {change: func(m *machine) { m.claim.Node.ID = "another" }},
		"another ID and address":            {change: func(m *machine) { m.claim.Node.ID, m.claim.PublicIP = "another", claim(7).PublicIP }},
		"reinstalled at another address":    {change: func(m *machine) { m.claim.PublicIP, m.claim.Node.Instance = claim(7).PublicIP, m.instance() }, gone: true},
		"an older tulled's, at its address": {change: func(m *machine) { m.forget() }},
		"an older tulled's, at another":     {change: func(m *machine) { m.forget(); m.claim.PublicIP = claim(7).PublicIP }, gone: true},
		"flannel's, at its address":         {change: func(m *machine) { m.write(subnet.Node{}) }},
		"a reinstalled clone": {change: func(m *machine) {
			m.write(subnet.Node{ID: subnet.CloneID("image", m.claim.Node.Instance), Instance: "00000000000000bb"})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHosts(t)
			m := h.copy(1, "").mustStart()
			was := m.own
			m.stop()
			c.change(m)
			if c.gone {
				m.stale()
			}
			m.restart()
			if m.mustStart(); m.own.Subnets != was.Subnets || m.forks > 0 {
				t.Errorf("it had %s and has %s; it gave its ID up %d times", was.Key(), m.own.Key(), m.forks)
			}
			h.wantOwn(m)
		})
	}
}

// TestRenumberedMachineOutlivesBackup: etcd is restored from a backup in which the
// machine has its former address, at which nothing lives any more.
func TestRenumberedMachineOutlivesBackup(t *testing.T) {
	t.Parallel()
	h := newHosts(t)
	m := h.copy(1, "").mustStart()
	former := m.claim.PublicIP
	m.stop()
	m.claim.PublicIP = claim(7).PublicIP
	m.restart()
	m.mustStart()
	now := m.claim.PublicIP
	for range 2 { // the holder restores its lease, and holds what it wrote itself
		m.claim.PublicIP = former
		m.write(m.claim.Node)
		m.claim.PublicIP = now
		kerneltest.Eventually(t, 20*time.Second, func() error {
			select {
			case err := <-m.lost:
				t.Fatalf("it lost its lease: %v", err)
			default:
			}
			r, err := h.client.Get(t.Context(), prefix+"/subnets/"+m.own.Key())
			if err != nil || len(r.Kvs) == 0 {
				return fmt.Errorf("etcd has no lease: %w", err)
			}
			if l, bad, _ := h.parse(r.Kvs[0]); bad != nil || l.PublicIP != now {
				return fmt.Errorf("etcd has %v, %v", l.PublicIP, bad)
			}
			return nil
		})
	}
	h.wantOwn(m)
}

// forget writes the lease as an older tulled does, without an instance.
func (m *machine) forget() {
	node := m.claim.Node
	node.Instance = ""
	m.write(node)
}

// keep renews the machine's lease, as an older tulled does, until the test ends.
func (m *machine) keep() {
	m.t.Helper()
	r, err := m.client.Get(m.t.Context(), prefix+"/subnets/"+m.own.Key())
	m.do("read a lease", r, err)
	id := clientv3.LeaseID(r.Kvs[0].Lease)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		for retry.Sleep(ctx, 250*time.Millisecond) == nil {
			_, _ = m.client.KeepAliveOnce(ctx, id) // a later renewal is enough
		}
	})
	m.t.Cleanup(func() { cancel(); running.Wait() })
}

// write writes the machine's lease as another daemon would, on the same etcd lease.
func (m *machine) write(node subnet.Node) {
	attrs := m.claim.Attrs
	attrs.Node = node
	value, err := subnet.FormatAttrs(attrs)
	m.do("format", value, err)
	r, err := m.client.Put(m.t.Context(), prefix+"/subnets/"+m.own.Key(), string(value), clientv3.WithIgnoreLease())
	m.do("write a lease", r, err)
}

// TestOlderMachineOfOneIDIsLeftAlone: a lease of this ID that an older tulled holds
// elsewhere stays with its holder while it is renewed. So does one that this instance
// never used.
func TestOlderMachineOfOneIDIsLeftAlone(t *testing.T) {
	t.Parallel()
	h := newHosts(t)
	older := h.copy(1, "").mustStart()
	older.stop()
	older.forget()
	older.keep()
	second, third := h.copy(2, "").mustStart(), h.copy(3, "").mustStart()
	if second.forks != 1 || third.forks != 1 {
		t.Errorf("beside an older tulled clones gave their ID up %d and %d times", second.forks, third.forks)
	}
	older.claim.Node.Instance = ""
	h.wantOwn(older, second, third)
	h.wantHistory()
}

// TestOlderMachineTakesALeaseOnce: an older tulled takes the lease of a machine with
// its ID. That machine yields, once and for good.
func TestOlderMachineTakesALeaseOnce(t *testing.T) {
	t.Parallel()
	h := newHosts(t)
	first := h.copy(1, "").mustStart()
	older := &machine{hosts: h, claim: claim(2), own: first.own}
	older.claim.Node.ID = "image"
	older.write(older.claim.Node)
	older.keep()
	if err := <-first.lost; !errors.Is(err, subnet.ErrTaken) {
		t.Errorf("the first ended with %v", err)
	}
	for range 2 {
		if first.mustStart(); first.forks != 1 || first.own.Subnets == older.own.Subnets {
			t.Errorf("it has %s, and gave its ID up %d times", first.own.Key(), first.forks)
		}
		first.stop()
	}
	h.wantOwn(first, older)
	h.wantHistory(older.own.Key())
}

// TestUnheardMachineIsDisplacedOnce: a copy that gets no answer from the machine
// takes its lease, as if renumbered. The machine yields, and neither fights.
func TestUnheardMachineIsDisplacedOnce(t *testing.T) {
	t.Parallel()
	h := newHosts(t)
	first := h.copy(1, "00000000000000aa").mustStart()
	delete(h.lives, first.at())
	second := h.copy(2, "00000000000000aa").mustStart()
	if second.own.Subnets != first.own.Subnets {
		t.Fatalf("the copy has %s", second.own.Key())
	}
	var twin *subnet.TwinError
	if err := <-first.lost; !errors.As(err, &twin) || !twin.Copied {
		t.Errorf("the first ended with %v", err)
	}
	if first.mustStart(); first.forks != 1 {
		t.Errorf("the first gave its ID up %d times", first.forks)
	}
	h.wantOwn(first, second)
	h.wantHistory(second.own.Key())
}

// TestManyTwinsAreNotAllAsked: many forged leases in a node's name delay its start no
// longer than a few questions take.
func TestManyTwinsAreNotAllAsked(t *testing.T) {
	for _, instance := range []string{"", "00000000000000aa"} {
		h := newHosts(t)
		m := h.copy(1, "00000000000000aa")
		var last clientv3.LeaseID
		for n := range 100 {
			other := claim(n + 100)
			other.Node.ID, other.Node.Instance = "image", instance
			value, err := subnet.FormatAttrs(other.Attrs)
			h.do("format", value, err)
			granted, err := h.client.Grant(t.Context(), 60)
			h.do("grant", granted, err)
			last = granted.ID
			r, err := h.client.Put(t.Context(), fmt.Sprintf("%s/subnets/10.5.%d.0-24", prefix, n+1), string(value), clientv3.WithLease(granted.ID))
			h.do("write a lease", r, err)
		}
		m.awaitSilence(last)
		asked := 0
		m.store.options.Answers = func(context.Context, subnet.Lease) bool { asked++; return false }
		if err := m.start(); err != nil || m.forks != 1 || asked > mostAsked {
			t.Errorf("%q: %d were asked, the ID was given up %d times: %v", instance, asked, m.forks, err)
		}
	}
}

// TestFlannelsOfOneImageKeepTheirSubnets replaces three flannel nodes with one
// machine-id, one after the other in several orders. Each keeps its subnet.
func TestFlannelsOfOneImageKeepTheirSubnets(t *testing.T) {
	for _, order := range [][]int{{1, 2, 3}, {3, 2, 1}, {2, 3, 1}} {
		t.Run(fmt.Sprint(order), func(t *testing.T) {
			h := newHosts(t)
			for n := 1; n <= 3; n++ {
				granted, err := h.client.Grant(t.Context(), 86400)
				h.do("grant", granted, err)
				value := fmt.Sprintf(`{"PublicIP":"198.18.0.%d","PublicIPv6":null,"BackendType":"vxlan","BackendData":{"VNI":1,"VtepMAC":"3a:00:00:00:00:0%d"}}`, n, n)
				r, err := h.client.Put(t.Context(), fmt.Sprintf("%s/subnets/10.5.%d.0-24", prefix, 10*n), value, clientv3.WithLease(granted.ID))
				h.do("write flannel's lease", r, err)
			}
			var all []*machine
			for range 2 { // and once more
				for i, n := range order {
					if len(all) <= i {
						all = append(all, h.copy(n, ""))
					} else {
						all[i].stop()
						all[i].restart()
					}
					all[i].mustStart()
					if want := fmt.Sprintf("10.5.%d.0-24", 10*n); all[i].own.Key() != want {
						t.Errorf("node %d has %s, and had %s", n, all[i].own.Key(), want)
					}
				}
			}
			h.wantOwn(all...)
			h.wantHistory()
		})
	}
}

// TestDisplacedInstallationTakesNoTurns: two installations publish one address and
// ID. The later one has the lease, and the first does not take it back while the
// later one is alive.
func TestDisplacedInstallationTakesNoTurns(t *testing.T) {
	t.Parallel()
	h := newHosts(t)
	first := h.copy(1, "").mustStart()
	second := h.copy(1, "").mustStart()
	if err := <-first.lost; !errors.Is(err, subnet.ErrSameAddress) {
		t.Errorf("the first ended with %v", err)
	}
	if err := first.start(); !errors.Is(err, subnet.ErrSameAddress) {
		t.Errorf("the first has %s again: %v", first.own.Key(), err)
	}
	h.wantOwn(second)
	second.stop()
	second.stale()
	if first.mustStart(); first.own.Subnets != second.own.Subnets {
		t.Errorf("the first has %s", first.own.Key())
	}
}

// TestStaleLeaseThatChangedStays: a stale lease that changes between list and delete
// stays.
func TestStaleLeaseThatChangedStays(t *testing.T) {
	h := newHosts(t)
	m := h.copy(1, "").mustStart()
	m.stop()
	h.SetConfig(`{"Network": "10.5.0.0/16", "EnableIPv6": true, "IPv6Network": "fd00:5::/48"}`)
	known, err := m.store.list(t.Context())
	h.do("list", known, err)
	value, err := subnet.FormatAttrs(m.claim.Attrs)
	h.do("format", value, err)
	a := &acquisition{Store: m.store, claim: m.claim, value: string(value), known: known, asked: make(map[string]bool)}
	m.write(claim(9).Node)
	if _, err := a.try(t.Context()); !errors.Is(err, errChanged) {
		t.Errorf("got %v", err)
	}
	if other, err := m.store.list(t.Context()); err != nil || len(other.leases) != 1 || other.leases[0].Node != claim(9).Node {
		t.Errorf("there are %+v, %v", other.leases, err)
	}
}
