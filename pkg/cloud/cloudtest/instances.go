package cloudtest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/tulle-net/tulle/pkg/cloud"
)

// These are the facts of a Fleet's instances.
const (
	Account = "000000000001"
	Region  = "fake-1"
	Zone    = "fake-1a"
	ZoneID  = "fk1-az1"
	Machine = "fake.large"
)

// Fleet is a fake of a cloud's instances that injects latency and faults. Their provider IDs
// are fake:///fake-1a/i-NAME. Set its fields inside Do.
type Fleet struct {
	mu        sync.Mutex
	instances map[string]*cloud.Instance // by provider ID
	names     map[string]string          // the provider ID of each Node's instance
	calls     []Call

	// Latency is the time from a call to the moment at which the fake looks up the state.
	Latency time.Duration
	// Late is the time from that moment to the return of the call.
	Late time.Duration
	// Revoked makes every call fail, as after a change of permissions.
	Revoked bool
	// Elsewhere makes every instance absent, as if the credentials were of another account.
	Elsewhere bool
	// Fault, if set, returns the keys of a call that are answered, and the call's error.
	Fault func(c Call) (answered []string, err error)
}

// Call is a call of a Fleet.
type Call struct {
	Action string // Instances or Named
	Keys   []string
}

// NewFleet returns a Fleet without instances.
func NewFleet() *Fleet {
	return &Fleet{instances: make(map[string]*cloud.Instance), names: make(map[string]string)}
}

// ProviderID returns the provider ID of a Node's instance.
func ProviderID(node string) string { return "fake:///" + Zone + "/i-" + node }

// Do calls what while no request runs.
func (f *Fleet) Do(what func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	what()
}

// Launch starts an instance for a Node, and returns its provider ID. The n-th instance gets the
// n-th address.
func (f *Fleet) Launch(node string, change ...func(*cloud.Instance)) (id string) {
	id = ProviderID(node)
	f.Do(func() {
		n := len(f.instances) + 1
		address := fmt.Sprintf("172.20.%d.%d", n>>8, n&255)
		i := &cloud.Instance{
			ID: "i-" + node, Name: node, ProviderID: id, State: cloud.Running, Type: Machine, Zone: Zone, ZoneID: ZoneID, Region: Region, Account: Account, Network: "net-1",
			Addresses: []cloud.Address{
				{Type: cloud.InternalIP, Value: address}, {Type: cloud.ExternalIP, Value: fmt.Sprintf("198.51.%d.%d", n>>8, n&255)},
				{Type: cloud.InternalDNS, Value: node + ".fake"}, {Type: cloud.Hostname, Value: node + ".fake"},
			},
			Interface: "nic-" + node, Launched: time.Unix(1_700_000_000, 0),
		}
		for _, c := range change {
			c(i)
		}
		f.instances[id], f.names[node] = i, id
	})
	return id
}

// Change changes an instance.
func (f *Fleet) Change(node string, change func(*cloud.Instance)) {
	f.Do(func() { change(f.instances[ProviderID(node)]) })
}

// SetState sets the state of a Node's instance.
func (f *Fleet) SetState(node string, s cloud.State) {
	f.Change(node, func(i *cloud.Instance) { i.State = s })
}

// Forget removes an instance, as a cloud does some time after its termination.
func (f *Fleet) Forget(node string) {
	f.Do(func() {
		delete(f.instances, ProviderID(node))
		delete(f.names, node)
	})
}

// Calls returns the calls so far.
func (f *Fleet) Calls() (all []Call) {
	f.Do(func() { all = slices.Clone(f.calls) })
	return all
}

// Instances returns instances by their provider IDs.
func (f *Fleet) Instances(ctx context.Context, ids []string) (map[string]cloud.Instance, error) {
	return f.answer(ctx, Call{"Instances", slices.Clone(ids)}, func(id string) string { return id })
}

// Named returns the instances of Nodes by the Nodes' names.
func (f *Fleet) Named(ctx context.Context, names []string) (map[string]cloud.Instance, error) {
	return f.answer(ctx, Call{"Named", slices.Clone(names)}, func(name string) string { return f.names[name] })
}

func (f *Fleet) answer(ctx context.Context, c Call, idOf func(key string) string) (found map[string]cloud.Instance, err error) {
	var latency, late time.Duration
	f.Do(func() {
		f.calls = append(f.calls, c)
		latency, late = f.Latency, f.Late
	})
	if err := pass(ctx, latency); err != nil {
		return nil, err
	}
	f.Do(func() { found, err = f.found(c, idOf) })
	if err := pass(ctx, late); err != nil {
		return nil, err
	}
	return found, err
}

// pass waits for d, or until ctx ends.
func pass(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// found returns the instances that a call finds.
func (f *Fleet) found(c Call, idOf func(key string) string) (map[string]cloud.Instance, error) {
	if f.Revoked {
		return nil, &cloud.Error{Kind: cloud.Denied, Action: c.Action, Text: "the identity may not read instances; allow it"}
	}
	answered, err := c.Keys, error(nil)
	if f.Fault != nil {
		answered, err = f.Fault(c)
	}
	found := make(map[string]cloud.Instance, len(answered))
	for _, key := range answered {
		found[key] = f.describe(idOf(key), key)
	}
	return found, err
}

// describe returns one instance as the cloud shows it.
func (f *Fleet) describe(id, key string) cloud.Instance {
	i := f.instances[id]
	switch {
	case f.Elsewhere, i == nil:
		return cloud.Instance{ProviderID: id, State: cloud.Absent, Problem: fmt.Sprintf("there is no instance of %s; delete the Node if its machine is gone", key)}
	case i.State == "":
		return cloud.Instance{ProviderID: id, Problem: fmt.Sprintf("providerID %s is not of this cloud; use one of it", id)}
	}
	v := *i
	v.Addresses = slices.Clone(i.Addresses)
	return v
}

// Nodes returns the names of the Nodes that have an instance, sorted.
func (f *Fleet) Nodes() (all []string) {
	f.Do(func() { all = slices.Sorted(maps.Keys(f.names)) })
	return all
}
