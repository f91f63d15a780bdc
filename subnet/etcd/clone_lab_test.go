package etcd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/subnet"
)

// hosts are machines that share one etcd.
type hosts struct {
	*lab
	mu    sync.Mutex
	lives map[netip.Addr]string // the instance that answers at an address
	made  int
}

func newHosts(t *testing.T) *hosts {
	h := &hosts{lab: newLab(t), lives: make(map[netip.Addr]string)}
	h.SetConfig(network)
	return h
}

// machine is a host with an installation. It does what a daemon does.
type machine struct {
	*hosts
	claim subnet.Claim
	store *Store
	own   subnet.Lease
	forks int
	lost  chan error   // gets the error of Hold
	end   func() error // ends Hold
}

// copy returns the n-th machine of an image, with the image's ID and, unless that is
// empty, its instance.
func (h *hosts) copy(n int, instance string) *machine {
	c := claim(n)
	c.Node.ID, c.Node.Instance = "image", instance
	return h.machine(c)
}

func (h *hosts) machine(c subnet.Claim) *machine {
	m := &machine{hosts: h, claim: c}
	if c.Node.Instance == "" {
		m.claim.Node.Instance = h.instance()
	}
	m.restart()
	return m
}

// instance returns a new instance.
func (h *hosts) instance() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.made++
	return fmt.Sprintf("%016x", h.made)
}

// restart opens another store, with a heartbeat of one second.
func (m *machine) restart() {
	m.store = m.openWith(func(o *Options) { o.heartbeat, o.Answers = time.Second, m.answers })
}

func (m *machine) at() netip.Addr { return m.claim.PublicIP[subnet.IPv4] }

// answers implements Options.Answers: a machine does not count itself.
func (m *machine) answers(_ context.Context, l subnet.Lease) bool {
	at := l.PublicIP[subnet.IPv4]
	m.mu.Lock()
	defer m.mu.Unlock()
	instance, lives := m.lives[at]
	return lives && at != m.at() && (l.Node.Instance != m.claim.Node.Instance || instance == l.Node.Instance)
}

// start leases a subnet as a daemon does, and holds it. It takes an ID of its own if
// it must.
func (m *machine) start() error {
	setLives := func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.lives[m.at()] = m.claim.Node.Instance
	}
	setLives()
	for {
		var twin *subnet.TwinError
		own, err := m.store.Acquire(m.t.Context(), m.claim)
		if errors.As(err, &twin) {
			if m.forks++; m.forks > 2 {
				return fmt.Errorf("%s gives its ID up again and again: %w", m.claim.Holder(), err)
			}
			if twin.Copied {
				m.claim.Node.Instance = m.instance()
				setLives()
			}
			m.claim.Node.ID = subnet.CloneID("image", m.claim.Node.Instance)
			continue
		}
		if err != nil {
			return err
		}
		m.own = own
		ctx, cancel := context.WithCancel(context.Background())
		lost := make(chan error, 1)
		go func() { lost <- m.store.Hold(ctx, own); close(lost) }()
		m.lost, m.end = lost, sync.OnceValue(func() error { cancel(); return <-lost })
		m.t.Cleanup(func() { _ = m.end() })
		return nil
	}
}

func (m *machine) mustStart() *machine {
	m.t.Helper()
	if err := m.start(); err != nil {
		m.t.Fatal(err)
	}
	return m
}

// stop ends a run, as when a host goes down. Its lease stays.
func (m *machine) stop() {
	m.t.Helper()
	if err := m.end(); !errors.Is(err, context.Canceled) {
		m.t.Errorf("%s did not hold its lease: %v", m.claim.Holder(), err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.lives, m.at())
}

// stale waits until a stopped machine counts as gone.
func (m *machine) stale() {
	m.t.Helper()
	r, err := m.client.Get(m.t.Context(), prefix+"/subnets/"+m.own.Key())
	m.do("read a lease", r, err)
	m.awaitSilence(clientv3.LeaseID(r.Kvs[0].Lease))
}

// awaitSilence waits until an etcd lease counts as not renewed.
func (m *machine) awaitSilence(id clientv3.LeaseID) {
	m.t.Helper()
	kerneltest.Eventually(m.t, patience, func() error {
		alive, err := m.store.alive(m.t.Context(), id)
		if err == nil && alive {
			err = errors.New("it counts as alive")
		}
		return err
	})
}

// wantOwn checks that each machine has a lease of its own, and that there are no
// others.
func (h *hosts) wantOwn(all ...*machine) {
	h.t.Helper()
	r, err := h.client.Get(h.t.Context(), prefix+"/subnets/", clientv3.WithPrefix())
	h.do("read the leases", r, err)
	held := make(map[string]string)
	for _, kv := range r.Kvs {
		l, bad, _ := h.parse(kv)
		if bad != nil {
			h.t.Fatal(bad)
		}
		held[l.Key()] = l.Holder()
	}
	want := make(map[string]string)
	ids := make(map[string]string)
	for _, m := range all {
		who := m.claim.Holder()
		if other, taken := want[m.own.Key()]; taken {
			h.t.Errorf("%s and %s both hold %s", who, other, m.own.Key())
		}
		if other, taken := ids[m.claim.Node.ID]; taken {
			h.t.Errorf("%s and %s both go by %s", who, other, m.claim.Node.ID)
		}
		want[m.own.Key()], ids[m.claim.Node.ID] = who, who
	}
	if !maps.Equal(held, want) {
		h.t.Errorf("etcd has %v, want %v", held, want)
	}
}

// wantHistory checks all of etcd's history: only its holder deleted or replaced a
// lease, except for the keys in may. A holder deletes one in the transaction that
// writes another, or because an older one overlaps it.
func (h *hosts) wantHistory(may ...string) {
	h.t.Helper()
	now, err := h.client.Get(h.t.Context(), prefix+"/config")
	h.do("read the revision", now, err)
	ctx, cancel := context.WithTimeout(h.t.Context(), patience)
	defer cancel()
	holders := make(map[string]subnet.Lease)
	wrote := make(map[int64]subnet.Lease) // by revision
	deleted := make(map[int64]subnet.Lease)
	seen := int64(0)
	events := h.client.Watch(ctx, prefix+"/", clientv3.WithPrefix(), clientv3.WithRev(1))
	for r := range events {
		h.do("watch the history", r, r.Err())
		for _, e := range r.Events {
			seen = e.Kv.ModRevision
			key, isLease := strings.CutPrefix(string(e.Kv.Key), prefix+"/subnets/")
			if !isLease || slices.Contains(may, key) {
				continue
			}
			if e.Type == clientv3.EventTypeDelete {
				l := holders[key]
				delete(holders, key)
				if !slices.ContainsFunc(slices.Collect(maps.Values(holders)), func(o subnet.Lease) bool {
					return o.Created < l.Created && overlap(o.Subnets, l.Subnets)
				}) {
					deleted[e.Kv.ModRevision] = l
				}
				continue
			}
			l, bad, _ := h.parse(e.Kv)
			if bad != nil {
				h.t.Fatal(bad)
			}
			before, had := holders[key]
			if had && !before.SameNode(l.Attrs) {
				h.t.Errorf("revision %d: %s took %s from %s", e.Kv.ModRevision, l.Holder(), key, before.Holder())
			}
			holders[key], wrote[e.Kv.ModRevision] = l, l
		}
		if seen >= now.Header.Revision || r.Header.Revision >= now.Header.Revision && len(r.Events) == 0 {
			break
		}
	}
	for revision, l := range deleted {
		if by, replaced := wrote[revision]; !replaced || !by.SameNode(l.Attrs) {
			h.t.Errorf("revision %d: the lease %s of %s was deleted", revision, l.Key(), l.Holder())
		}
	}
}
