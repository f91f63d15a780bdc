// Package storetest has a subnet.Store in memory, for tests of code that uses one,
// and the test suite that every Store passes.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tulle-net/tulle/subnet"
)

// TTL is how long a lease lasts without a Hold.
const TTL = 24 * time.Hour

// Memory is a subnet.Store in memory. Its clock moves only with Advance. Its other
// methods do what people and failures do to a store.
type Memory struct {
	mu       sync.Mutex
	changed  chan struct{} // closed, and replaced, at every change
	config   subnet.Config
	valid    bool // config is valid
	now      time.Time
	revision int64
	leases   map[string]subnet.Lease
	bad      map[string]*subnet.LeaseError
	holders  map[string]int  // running Holds by key
	log      []subnet.Update // all deltas so far
	epoch    int             // grows with each gap that watchers see
	notices  map[string]subnet.Notice
}

var _ Store = (*Memory)(nil)

// NewMemory returns an empty store. With an invalid config, like "", it has none.
func NewMemory(config string) *Memory {
	m := &Memory{
		changed: make(chan struct{}),
		now:     time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		leases:  map[string]subnet.Lease{},
		bad:     map[string]*subnet.LeaseError{},
		holders: map[string]int{},
		epoch:   1,
	}
	m.SetConfig(config)
	return m
}

// Config implements subnet.Store.
func (m *Memory) Config(ctx context.Context, known subnet.Config) (subnet.Config, error) {
	for {
		m.mu.Lock()
		config, valid, changed := m.config, m.valid, m.changed
		m.mu.Unlock()
		if valid && config != known {
			return config, nil
		}
		if err := wait(ctx, changed); err != nil {
			return subnet.Config{}, err
		}
	}
}

// Acquire implements subnet.Store.
func (m *Memory) Acquire(ctx context.Context, claim subnet.Claim) (subnet.Lease, error) {
	config, err := m.Config(ctx, subnet.Config{})
	if err != nil {
		return subnet.Lease{}, err
	}
	// FormatAttrs refuses what other stores refuse.
	value, err := subnet.FormatAttrs(claim.Attrs)
	if err != nil {
		return subnet.Lease{}, err
	}
	if claim.Attrs, err = subnet.ParseAttrs(value); err != nil {
		return subnet.Lease{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	lease, stale, err := m.choose(config, claim)
	if err != nil {
		return subnet.Lease{}, err
	}
	var gone []string
	for _, l := range stale {
		gone = append(gone, l.Key())
	}
	return m.write(lease, gone...), nil
}

// choose returns the lease for claim, and the leases that it replaces.
func (m *Memory) choose(config subnet.Config, claim subnet.Claim) (lease subnet.Lease, stale []subnet.Lease, err error) {
	leases := m.list()
	lease, ok, stale := claim.Own(config, leases)
	var own *subnet.Lease
	if ok {
		own = &lease
	}
	twin, inherited, _ := claim.Twin(own, leases, func(l subnet.Lease) (bool, error) { return m.holders[l.Key()] > 0, nil })
	if twin != nil {
		return lease, nil, &subnet.TwinError{Lease: *twin}
	}
	if len(inherited) > 0 {
		claim.Judged = make(map[subnet.Pair[netip.Prefix]]bool)
		for _, l := range inherited {
			claim.Judged[l.Subnets] = true
		}
		lease, ok, stale = claim.Own(config, leases)
	}
	if ok {
		lease.Attrs = claim.Attrs
		if !lease.IsReservation() {
			lease.Expires = m.now.Add(TTL)
		}
		return lease, stale, nil
	}
	candidates, err := subnet.Candidates(config, leases, claim)
	if err != nil {
		return subnet.Lease{}, nil, err
	}
	for subnets := range candidates {
		lease = subnet.Lease{Subnets: subnets, Attrs: claim.Attrs, Expires: m.now.Add(TTL)}
		if m.bad[lease.Key()] == nil {
			return lease, stale, nil
		}
	}
	return subnet.Lease{}, nil, fmt.Errorf("%w: unreadable entries hold the last free ones; delete them", subnet.ErrOutOfSubnets)
}

// Hold implements subnet.Store.
func (m *Memory) Hold(ctx context.Context, own subnet.Lease) error {
	key := own.Key()
	m.mu.Lock()
	m.holders[key]++
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.holders[key]--
	}()
	for {
		m.mu.Lock()
		err := m.keep(own)
		changed := m.changed
		m.mu.Unlock()
		if err != nil {
			return err
		}
		if err := wait(ctx, changed); err != nil {
			return err
		}
	}
}

// keep restores own, unless another node has its subnet.
func (m *Memory) keep(own subnet.Lease) error {
	l, ok := m.leases[own.Key()]
	switch {
	case ok && !l.SameNode(own.Attrs):
		return taken(l)
	case ok && l.Attrs == own.Attrs:
		return nil
	case !ok:
		for _, other := range m.leases {
			if overlap(other, own) && !other.SameNode(own.Attrs) {
				return taken(other)
			}
		}
		l = subnet.Lease{Subnets: own.Subnets, Expires: m.now.Add(TTL)}
	}
	l.Attrs = own.Attrs
	m.write(l)
	return nil
}

func taken(by subnet.Lease) error {
	return fmt.Errorf("%w: %s is leased to %s", subnet.ErrTaken, by.Key(), by.Identity())
}

// Watch implements subnet.Store.
func (m *Memory) Watch(ctx context.Context, to func(subnet.Update)) error {
	epoch, seen := 0, 0
	for {
		m.mu.Lock()
		changed := m.changed
		news := m.log[seen:]
		if epoch != m.epoch {
			news = []subnet.Update{{Complete: true, Leases: m.list(), Bad: slices.Collect(maps.Values(m.bad))}}
		}
		epoch, seen = m.epoch, len(m.log)
		m.mu.Unlock()
		for _, u := range news {
			to(u)
		}
		if err := wait(ctx, changed); err != nil {
			return err
		}
	}
}

// SetConfig writes the network's config.
func (m *Memory) SetConfig(config string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var err error
	m.config, err = subnet.ParseConfig([]byte(config))
	m.valid = err == nil
	m.wake()
}

// Write puts an entry as a person would: without an expiry, and also one that is no
// lease.
func (m *Memory) Write(key, value string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	lease, err := subnet.ParseLease(key, []byte(value))
	var bad *subnet.LeaseError
	if errors.As(err, &bad) {
		delete(m.leases, key)
		m.bad[key] = bad
		m.publish(subnet.Update{Bad: []*subnet.LeaseError{bad}})
		return
	}
	m.write(lease)
}

// Put puts a lease as it is. The store sets only Revision and Created.
func (m *Memory) Put(lease subnet.Lease) subnet.Lease {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.write(lease)
}

// Delete removes an entry, as a person or an expiry does.
func (m *Memory) Delete(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.remove(key)
}

// Gap makes all watchers list again.
func (m *Memory) Gap() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.epoch++
	m.wake()
}

// Wipe removes all leases, as when a store loses its data, and makes all watchers list again.
func (m *Memory) Wipe() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.leases)
	clear(m.bad)
	m.epoch++
	m.wake()
}

// Advance moves the clock. It renews expired leases that a Hold keeps, as the Hold
// would have done, and removes the others.
func (m *Memory) Advance(by time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now = m.now.Add(by)
	for _, l := range m.list() {
		switch {
		case l.IsReservation() || l.Expires.After(m.now):
		case m.holders[l.Key()] > 0:
			l.Expires = m.now.Add(TTL)
			m.leases[l.Key()] = l
		default:
			m.remove(l.Key())
		}
	}
}

// Leases returns all leases, sorted by key.
func (m *Memory) Leases() []subnet.Lease {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.list()
}

func (m *Memory) list() []subnet.Lease {
	return slices.SortedFunc(maps.Values(m.leases), func(a, b subnet.Lease) int {
		return strings.Compare(a.Key(), b.Key())
	})
}

// write puts lease under its key, and removes gone in the same step.
func (m *Memory) write(lease subnet.Lease, gone ...string) subnet.Lease {
	key := lease.Key()
	m.revision++
	lease.Revision, lease.Created = m.revision, m.revision
	if before, ok := m.leases[key]; ok {
		lease.Created = before.Created
	}
	delete(m.bad, key)
	m.leases[key] = lease
	for _, k := range gone {
		delete(m.leases, k)
	}
	m.publish(subnet.Update{Leases: []subnet.Lease{lease}, Gone: gone})
	return lease
}

func (m *Memory) remove(key string) {
	_, ok := m.leases[key]
	if !ok && m.bad[key] == nil {
		return
	}
	delete(m.leases, key)
	delete(m.bad, key)
	m.publish(subnet.Update{Gone: []string{key}})
}

func (m *Memory) publish(u subnet.Update) {
	m.log = append(m.log, u)
	m.wake()
}

func (m *Memory) wake() {
	close(m.changed)
	m.changed = make(chan struct{})
}

// wait waits until changed is closed or ctx ends. The error is ctx's.
func wait(ctx context.Context, changed <-chan struct{}) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-changed:
		return ctx.Err()
	}
}

func overlap(a, b subnet.Lease) bool {
	for f := range a.Subnets {
		if a.Subnets[f].Overlaps(b.Subnets[f]) {
			return true
		}
	}
	return false
}
