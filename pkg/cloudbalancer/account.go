package cloudbalancer

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tulle-net/tulle/pkg/cloud"
)

// recently is how long what the cloud shows of an object may be older than our last change
// of it.
const recently = 30 * time.Second

// Account holds what the cloud's account has for the load balancing of a cluster, as far as
// it was read or made. Its zero value is not usable.
type Account struct {
	balancers map[string]cloud.Balancer
	groups    map[string]cloud.TargetGroup
	security  map[string]cloud.SecurityGroup
	// made and gone are when objects were last created and deleted here, by ID.
	made, gone map[string]time.Time
	// The following are IDs: of target groups and of security groups by the name of their
	// Service, of balancers and security groups by their own names, and of security groups
	// by the balancers that their rules are for.
	of, secures, named, called, ruled index
}

// index is a set of IDs for each key.
type index map[string]map[string]bool

func (x index) add(key, id string) {
	if x[key] == nil {
		x[key] = make(map[string]bool)
	}
	x[key][id] = true
}

func (x index) remove(key, id string) {
	if delete(x[key], id); len(x[key]) == 0 {
		delete(x, key)
	}
}

// get returns the IDs for a key, in order.
func (x index) get(key string) []string { return slices.Sorted(maps.Keys(x[key])) }

func (x index) clone() index {
	all := make(index, len(x))
	for key, ids := range x {
		all[key] = maps.Clone(ids)
	}
	return all
}

// NewAccount returns an Account without objects.
func NewAccount() *Account {
	return &Account{
		balancers: make(map[string]cloud.Balancer), groups: make(map[string]cloud.TargetGroup), security: make(map[string]cloud.SecurityGroup),
		made: make(map[string]time.Time), gone: make(map[string]time.Time),
		of: make(index), secures: make(index), named: make(index), called: make(index), ruled: make(index),
	}
}

// Set takes a complete reading that began at a time. Details stay as they were. Security
// groups of others stay as long as keep names them.
func (a *Account) Set(all cloud.Balancing, keep map[string]bool, began time.Time) {
	for id, at := range a.gone {
		if began.Sub(at) > recently {
			delete(a.gone, id)
		}
	}
	before := *a
	fresh := NewAccount()
	stays := func(id string) bool { return before.isNew(id, began) }
	fresh.made, fresh.gone = a.made, a.gone
	*a = *fresh
	for _, b := range all.Balancers {
		if was, is := before.balancers[b.ID]; is && was.Detailed {
			b.Detailed, b.Attributes, b.Listeners = true, was.Attributes, was.Listeners
		}
		if _, gone := before.gone[b.ID]; !gone {
			a.setBalancer(b)
		}
	}
	for _, g := range all.Groups {
		if was, is := before.groups[g.ID]; is && was.Detailed {
			g.Detailed, g.Attributes, g.Targets = true, was.Attributes, was.Targets
		}
		if _, gone := before.gone[g.ID]; !gone {
			a.setGroup(g)
		}
	}
	for _, s := range all.Security {
		if _, gone := before.gone[s.ID]; !gone {
			a.setSecurity(s)
		}
	}
	for id, b := range before.balancers {
		if _, is := a.balancers[id]; !is && stays(id) {
			a.setBalancer(b)
		}
	}
	for id, g := range before.groups {
		if _, is := a.groups[id]; !is && stays(id) {
			a.setGroup(g)
		}
	}
	for id, s := range before.security {
		if _, is := a.security[id]; !is && (stays(id) || keep[id]) {
			a.setSecurity(s)
		}
	}
	maps.DeleteFunc(a.made, func(id string, at time.Time) bool { return began.Sub(at) > recently })
}

// isNew reports whether an object was made here so recently that a reading may lack it.
func (a *Account) isNew(id string, began time.Time) bool {
	at, is := a.made[id]
	return is && began.Sub(at) <= recently
}

func (a *Account) setBalancer(b cloud.Balancer) {
	a.balancers[b.ID] = b
	a.named.add(b.Name, b.ID)
}

func (a *Account) removeBalancer(id string) {
	a.named.remove(a.balancers[id].Name, id)
	delete(a.balancers, id)
}

func (a *Account) setGroup(g cloud.TargetGroup) {
	a.groups[g.ID] = g
	a.of.add(g.Tags[ServiceTag], g.ID)
}

func (a *Account) removeGroup(id string) {
	a.of.remove(a.groups[id].Tags[ServiceTag], id)
	delete(a.groups, id)
}

func (a *Account) setSecurity(g cloud.SecurityGroup) {
	a.removeSecurity(g.ID)
	a.security[g.ID] = g
	a.secures.add(g.Tags[ServiceTag], g.ID)
	a.called.add(g.Name, g.ID)
	for _, r := range g.Rules {
		if name := balancerOf(r); name != "" {
			a.ruled.add(name, g.ID)
		}
	}
}

func (a *Account) removeSecurity(id string) {
	g, is := a.security[id]
	if !is {
		return
	}
	delete(a.security, id)
	a.secures.remove(g.Tags[ServiceTag], id)
	a.called.remove(g.Name, id)
	for _, r := range g.Rules {
		if name := balancerOf(r); name != "" {
			a.ruled.remove(name, id)
		}
	}
}

// SetDetails takes a reading, which began at a time, of the details of objects. Those that
// are missing in a complete answer do not exist any more, unless they are so new that the
// cloud may not show them yet.
func (a *Account) SetDetails(ids []string, all cloud.Balancing, complete bool, began time.Time) {
	found := make(map[string]bool)
	for _, b := range all.Balancers {
		if was, is := a.balancers[b.ID]; is {
			was.Detailed, was.Attributes, was.Listeners = true, b.Attributes, b.Listeners
			a.balancers[b.ID] = was
		}
		found[b.ID] = true
	}
	for _, g := range all.Groups {
		if was, is := a.groups[g.ID]; is {
			was.Detailed, was.Attributes, was.Targets = true, g.Attributes, g.Targets
			a.groups[g.ID] = was
		}
		found[g.ID] = true
	}
	for _, id := range ids {
		if found[id] || !complete || a.isNew(id, began) {
			continue
		}
		if _, is := a.balancers[id]; is {
			a.removeBalancer(id)
		}
		if _, is := a.groups[id]; is {
			a.removeGroup(id)
		}
	}
}

// Forget makes the details of what a Service has unknown.
func (a *Account) Forget(h Holding) {
	if h.Balancer != nil {
		b := a.balancers[h.Balancer.ID]
		b.Detailed = false
		a.balancers[b.ID] = b
	}
	for _, g := range h.Groups {
		g.Detailed = false
		a.groups[g.ID] = g
	}
}

// SetSecurity takes security groups of Nodes that do not have the cluster's tag.
func (a *Account) SetSecurity(all []cloud.SecurityGroup) {
	for _, s := range all {
		a.setSecurity(s)
	}
}

// Balancer returns a balancer.
func (a *Account) Balancer(id string) (cloud.Balancer, bool) {
	b, is := a.balancers[id]
	return b, is
}

// Security returns a security group.
func (a *Account) Security(id string) (cloud.SecurityGroup, bool) {
	s, is := a.security[id]
	return s, is
}

// Holding is what the account has for one Service.
type Holding struct {
	Balancer *cloud.Balancer // nil if there is none
	// Groups are its target groups, in the order of their IDs.
	Groups []cloud.TargetGroup
	// Own is the security group of the balancer that is ours; nil if there is none.
	Own *cloud.SecurityGroup
	// Nodes are all security groups in which rules are ours, or may become so.
	Nodes []cloud.SecurityGroup
	// Shared returns the rules that balancers of other Services need in a security group of
	// Nodes. It is called before rules are removed; nil is none.
	Shared func(group string) []cloud.Rule
	// Foreign is why an object with a name of ours is not ours, or "".
	Foreign string
}

// Holding returns what the account has for a Service. of are the IDs of the security
// groups of its Nodes.
func (a *Account) Holding(cluster string, s Ref, of []string) (h Holding) {
	name := BalancerName(s.UID)
	for _, id := range a.named.get(name) {
		b := a.balancers[id]
		if b.Tags[clusterTag+cluster] != owned || b.Tags[ServiceTag] != "" && b.Tags[ServiceTag] != s.Key() {
			h.Foreign = fmt.Sprintf("the load balancer %s is not ours: it lacks the tag %s%s=%s or %s=%s; tag it to hand it over, or delete it", name, clusterTag, cluster, owned, ServiceTag, s.Key())
			continue
		}
		h.Balancer = &b
	}
	for _, id := range a.of.get(s.Key()) {
		if g := a.groups[id]; s.isOurs(cluster, g.Tags) {
			h.Groups = append(h.Groups, g)
		}
	}
	adopted := adoptedSecurityName(cluster, s)
	ids := slices.Concat(a.secures.get(s.Key()), a.called.get(adopted), a.ruled.get(name), of)
	slices.Sort(ids)
	for _, id := range slices.Compact(ids) {
		g, is := a.security[id]
		switch {
		case !is:
		case s.isOurs(cluster, g.Tags), g.Name == adopted && g.Tags[clusterTag+cluster] == owned && g.Tags[ServiceTag] == "":
			if h.Own == nil || h.Balancer != nil && slices.Contains(h.Balancer.Security, id) {
				h.Own = &g
			}
		case slices.Contains(of, id) || a.ruled[name][id]:
			h.Nodes = append(h.Nodes, g)
		}
	}
	return h
}

// Unread returns how many balancers and target groups a Service has, and the IDs of those
// whose details are not known.
func (a *Account) Unread(s Ref) (all int, ids []string) {
	name := BalancerName(s.UID)
	all = len(a.named[name]) + len(a.of[s.Key()])
	for id := range a.named[name] {
		if !a.balancers[id].Detailed {
			ids = append(ids, id)
		}
	}
	for id := range a.of[s.Key()] {
		if !a.groups[id].Detailed {
			ids = append(ids, id)
		}
	}
	return all, ids
}

// Details returns the IDs of what a Service has whose details are not known.
func (h Holding) Details() (ids []string) {
	if h.Balancer != nil && !h.Balancer.Detailed {
		ids = append(ids, h.Balancer.ID)
	}
	for _, g := range h.Groups {
		if !g.Detailed {
			ids = append(ids, g.ID)
		}
	}
	return ids
}

// IsEmpty reports whether a Service has nothing.
func (h Holding) IsEmpty() bool {
	return h.Balancer == nil && len(h.Groups) == 0 && h.Own == nil
}

// Count returns how many balancers and target groups of the cluster the account has.
func (a *Account) Count() (balancers, groups int) { return len(a.balancers), len(a.groups) }
