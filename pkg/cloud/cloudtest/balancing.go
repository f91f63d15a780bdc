package cloudtest

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/tulle-net/tulle/pkg/cloud"
)

// NodeGroup is a security group for the instances of a Fleet.
const NodeGroup = "sg-nodes"

// Balancers is a fake of an account's load balancing that injects faults. Its targets are the
// instances of a Fleet. Set its fields inside Do.
type Balancers struct {
	Fleet     *Fleet
	mu        sync.Mutex
	cluster   string
	subnets   []cloud.Subnet
	balancers map[string]*cloud.Balancer
	groups    map[string]*cloud.TargetGroup
	security  map[string]*cloud.SecurityGroup
	// lingers is, for each security group, how many deletions still fail because
	// interfaces of a deleted balancer use it.
	lingers map[string]int
	made    int
	changes []cloud.BalancerChange
	reads   map[string]int

	// Linger is how many deletions of a security group fail after its balancer is gone.
	Linger int
	// Unreadable is the error of every read. Partial is the error of every second read of
	// details, which then returns only half of them.
	Unreadable, Partial error
	// Fail, if set, is called before a change. If it returns an error, the change is not
	// made.
	Fail func(c cloud.BalancerChange) error
	// Lose, if set, is called after a change. If it returns an error, the caller gets that
	// error instead of the answer.
	Lose func(c cloud.BalancerChange) error
	// Hold, if set, returns the channel that a change waits for.
	Hold func(c cloud.BalancerChange) <-chan struct{}
	// Most is the quota of balancers; 0 is no limit.
	Most int
}

// NewBalancers returns the load balancing of the account of a cluster, with a public and
// an internal subnet in each of three zones.
func NewBalancers(f *Fleet, cluster string) *Balancers {
	b := &Balancers{
		Fleet: f, cluster: "kubernetes.io/cluster/" + cluster, balancers: make(map[string]*cloud.Balancer), groups: make(map[string]*cloud.TargetGroup),
		security: make(map[string]*cloud.SecurityGroup), lingers: make(map[string]int), reads: make(map[string]int),
	}
	for i, zone := range []string{"a", "b", "c"} {
		for j, role := range []string{"elb", "internal-elb"} {
			b.subnets = append(b.subnets, cloud.Subnet{
				ID: "subnet-" + role + "-" + zone, Name: role + " " + zone, Network: "net-1", Zone: "fake-1" + zone, Regular: true, Public: j == 0, Free: 200,
				IPv4: netip.PrefixFrom(netip.AddrFrom4([4]byte{172, 20, byte(16*j + i), 0}), 24),
				Tags: map[string]string{"kubernetes.io/role/" + role: "1", b.cluster: "shared"},
			})
		}
	}
	b.security[NodeGroup] = &cloud.SecurityGroup{ID: NodeGroup, Name: "nodes", Network: "net-1", Tags: map[string]string{b.cluster: "owned"}}
	return b
}

// Do calls f while no request runs.
func (b *Balancers) Do(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f()
}

// Put writes objects, as a person or another program does.
func (b *Balancers) Put(all cloud.Balancing) {
	b.Do(func() {
		for _, v := range all.Balancers {
			b.balancers[v.ID] = &v
		}
		for _, v := range all.Groups {
			b.groups[v.ID] = &v
		}
		for _, v := range all.Security {
			b.security[v.ID] = &v
		}
	})
}

// SetSubnets replaces all subnets.
func (b *Balancers) SetSubnets(all ...cloud.Subnet) { b.Do(func() { b.subnets = all }) }

// Drop removes an object, as a person or another program does.
func (b *Balancers) Drop(id string) {
	b.Do(func() {
		delete(b.balancers, id)
		delete(b.groups, id)
		delete(b.security, id)
	})
}

// All returns all objects, in the order of their IDs.
func (b *Balancers) All() (all cloud.Balancing) {
	b.Do(func() { all = b.all(func(map[string]string) bool { return true }) })
	return all
}

// all returns the objects whose tags match.
func (b *Balancers) all(has func(map[string]string) bool) cloud.Balancing {
	return b.some(func(_ string, tags map[string]string) bool { return has(tags) })
}

// some returns the objects whose IDs and tags match.
func (b *Balancers) some(is func(id string, tags map[string]string) bool) (all cloud.Balancing) {
	for _, id := range slices.Sorted(maps.Keys(b.balancers)) {
		if v := *b.balancers[id]; is(id, v.Tags) {
			v.Listeners, v.Attributes, v.Tags, v.Mappings, v.Security = slices.Clone(v.Listeners), maps.Clone(v.Attributes), maps.Clone(v.Tags), slices.Clone(v.Mappings), slices.Clone(v.Security)
			all.Balancers = append(all.Balancers, v)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(b.groups)) {
		if v := *b.groups[id]; is(id, v.Tags) {
			v.Targets, v.Attributes, v.Tags = slices.Clone(v.Targets), maps.Clone(v.Attributes), maps.Clone(v.Tags)
			v.Balancers = b.using(id)
			all.Groups = append(all.Groups, v)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(b.security)) {
		if v := *b.security[id]; is(id, v.Tags) {
			v.Rules, v.Tags = slices.Clone(v.Rules), maps.Clone(v.Tags)
			all.Security = append(all.Security, v)
		}
	}
	return all
}

// using returns the balancers with listeners that lead to a target group.
func (b *Balancers) using(group string) (ids []string) {
	for _, id := range slices.Sorted(maps.Keys(b.balancers)) {
		if slices.ContainsFunc(b.balancers[id].Listeners, func(l cloud.Listener) bool { return l.Group == group }) {
			ids = append(ids, id)
		}
	}
	return ids
}

// Changes returns the requested changes.
func (b *Balancers) Changes() (all []cloud.BalancerChange) {
	b.Do(func() { all = slices.Clone(b.changes) })
	return all
}

// Reads counts the reads, by method.
func (b *Balancers) Reads() (all map[string]int) {
	b.Do(func() { all = maps.Clone(b.reads) })
	return all
}

// Targets returns the registered targets behind the listener of a port of a balancer.
func (b *Balancers) Targets(name string, port int) (ids []string) {
	b.Do(func() {
		for _, v := range b.balancers {
			for _, l := range v.Listeners {
				if v.Name != name || l.Port != port || b.groups[l.Group] == nil {
					continue
				}
				for _, t := range b.groups[l.Group].Targets {
					if t.State != "draining" {
						ids = append(ids, t.ID)
					}
				}
			}
		}
	})
	slices.Sort(ids)
	return ids
}

func (b *Balancers) read(what string) error {
	b.reads[what]++
	return b.Unreadable
}

// Instances implements service.Cloud.
func (b *Balancers) Instances(ctx context.Context, ids []string) (map[string]cloud.Instance, error) {
	return b.Fleet.Instances(ctx, ids)
}

// Subnets implements service.Cloud.
func (b *Balancers) Subnets(ctx context.Context) ([]cloud.Subnet, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.read("Subnets"); err != nil {
		return nil, err
	}
	return slices.Clone(b.subnets), ctx.Err()
}

// Balancing implements service.Cloud.
func (b *Balancers) Balancing(ctx context.Context) (all cloud.Balancing, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.read("Balancing"); err != nil {
		return all, err
	}
	all = b.all(func(tags map[string]string) bool { _, is := tags[b.cluster]; return is })
	for i := range all.Balancers {
		all.Balancers[i].Listeners, all.Balancers[i].Attributes = nil, nil
	}
	for i := range all.Groups {
		all.Groups[i].Targets, all.Groups[i].Attributes = nil, nil
	}
	return all, ctx.Err()
}

// Details implements service.Cloud.
func (b *Balancers) Details(ctx context.Context, ids []string) (all cloud.Balancing, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.read("Details"); err != nil {
		return all, err
	}
	if b.Partial != nil && b.reads["Details"]%2 == 1 {
		ids, err = ids[:len(ids)/2], b.Partial
	}
	all = b.some(func(id string, _ map[string]string) bool { return slices.Contains(ids, id) })
	for i := range all.Balancers {
		all.Balancers[i].Detailed = true
	}
	for i := range all.Groups {
		all.Groups[i].Detailed = true
	}
	all.Security = nil
	return all, err
}

// SecurityGroups implements service.Cloud.
func (b *Balancers) SecurityGroups(ctx context.Context, ids []string) (all []cloud.SecurityGroup, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.read("SecurityGroups"); err != nil {
		return nil, err
	}
	for _, v := range b.all(func(map[string]string) bool { return true }).Security {
		if slices.Contains(ids, v.ID) {
			all = append(all, v)
		}
	}
	return all, ctx.Err()
}

// BalancerQuota implements service.Cloud.
func (b *Balancers) BalancerQuota(ctx context.Context) (cloud.BalancerQuota, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.read("BalancerQuota"); err != nil {
		return cloud.BalancerQuota{}, err
	}
	return cloud.BalancerQuota{Balancers: 50, Groups: 3000, Listeners: 50, Targets: 500, GroupTargets: 1000, Rules: 60}, ctx.Err()
}

// ChangeBalancing implements service.Cloud.
func (b *Balancers) ChangeBalancing(ctx context.Context, c cloud.BalancerChange) (answer cloud.Balancing, err error) {
	var hold <-chan struct{}
	b.Do(func() {
		if b.changes = append(b.changes, c); b.Hold != nil {
			hold = b.Hold(c)
		}
	})
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return answer, &cloud.Error{Kind: cloud.Unavailable, Action: string(c.Verb), Text: ctx.Err().Error()}
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.Fail != nil {
		if err := b.Fail(c); err != nil {
			return answer, err
		}
	}
	if answer, err = b.change(c); err != nil {
		return answer, err
	}
	if b.Lose != nil {
		if err := b.Lose(c); err != nil {
			return cloud.Balancing{}, err
		}
	}
	return answer, nil
}

// id returns the ID of a new object.
func (b *Balancers) id(kind, name string) string {
	b.made++
	return fmt.Sprintf("%s-%d-%s", kind, b.made, strings.ReplaceAll(name, " ", ""))
}
