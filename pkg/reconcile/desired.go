package reconcile

import (
	"slices"
	"sort"

	"github.com/tulle-net/tulle/pkg/netstate"
)

// Desired holds what owners want in the kernel: this host one part, each peer
// another. If two owners want one key differently, the earlier has it, and the later
// waits until it is released: so no lease can take from another what that one needs.
// If they want the same, either may be the holder. It calls note for each change.
type Desired struct {
	state    netstate.State
	waiting  map[netstate.Key][]claim
	waits    map[string][]netstate.Key // what an owner waits for; nothing for most
	links    map[string]int            // how many objects of state are, or are on, a link
	expected int                       // owners that come in a moment; see Expect
	complete bool
	note     func(change)
}

// claim is one owner's wish for an object.
type claim struct {
	owner  string
	object netstate.Object
}

// change reports that the object with a key of the state was created, replaced or
// deleted.
type change struct {
	verb   netstate.Verb
	object netstate.Object // with Delete, the former object
}

func newDesired(note func(change)) *Desired {
	return &Desired{
		waiting: make(map[netstate.Key][]claim),
		waits:   make(map[string][]netstate.Key),
		links:   make(map[string]int),
		note:    note,
	}
}

// Set makes objects what owner wants, in place of what it wanted before.
func (d *Desired) Set(owner string, objects []netstate.Object) {
	if before := d.wants(owner); !slices.Equal(before, objects) {
		d.exchange(owner, before, objects)
	}
}

// Remove removes all that owner wants.
func (d *Desired) Remove(owner string) { d.Set(owner, nil) }

// wants returns what owner wants: its objects in the state, and what it waits for.
func (d *Desired) wants(owner string) []netstate.Object {
	objects := d.state.Owned(owner)
	for _, k := range d.waits[owner] {
		list := d.waiting[k]
		objects = append(objects, list[claimIndex(list, owner)].object)
	}
	return objects
}

// Expect announces that the following updates set n more owners.
func (d *Desired) Expect(n int) {
	if d.expected == 0 && n > 0 {
		d.state.Expect(n)
	}
	d.expected = n
}

// Complete marks that all owners are known. From now on the loop removes what no
// owner wants.
func (d *Desired) Complete() { d.complete = true }

// exchange replaces owner's objects in the state: the new ones first, so that
// a key of both is replaced in place.
func (d *Desired) exchange(owner string, before, after []netstate.Object) {
	for _, o := range after {
		d.claim(owner, o)
	}
	if len(before) == 0 {
		return
	}
	keep := make(map[netstate.Key]bool, len(after))
	for _, o := range after {
		keep[o.Key()] = true
	}
	for _, o := range before {
		if k := o.Key(); !keep[k] {
			d.release(owner, k)
		}
	}
}

func (d *Desired) claim(owner string, o netstate.Object) {
	k := o.Key()
	is, taken := d.state.Get(k)
	switch {
	case !taken:
		d.add(owner, o)
		d.note(change{netstate.Create, o})
	case d.state.Owner(k) != owner:
		d.wait(k, claim{owner, o})
	case is != o:
		d.put(owner, o)
		d.note(change{netstate.Replace, o})
	}
}

// wait puts c among the claims that wait for k, in its owner's place.
func (d *Desired) wait(k netstate.Key, c claim) {
	list := d.waiting[k]
	if i := claimIndex(list, c.owner); i >= 0 {
		list[i] = c
		return
	}
	d.waiting[k] = append(list, c)
	d.waits[c.owner] = append(d.waits[c.owner], k)
}

func (d *Desired) release(owner string, k netstate.Key) {
	if d.state.Owner(k) != owner {
		if i := claimIndex(d.waiting[k], owner); i >= 0 {
			d.stopWaiting(k, i)
		}
		return
	}
	is, ok := d.state.Get(k)
	if !ok {
		return
	}
	list := d.waiting[k]
	if len(list) == 0 {
		d.drop(is)
		d.note(change{netstate.Delete, is})
		return
	}
	next := list[0]
	d.stopWaiting(k, 0)
	d.put(next.owner, next.object)
	if next.object != is {
		d.note(change{netstate.Replace, next.object})
	}
}

// stopWaiting removes the claim at i of those that wait for k.
func (d *Desired) stopWaiting(k netstate.Key, i int) {
	list := d.waiting[k]
	owner := list[i].owner
	if list = slices.Delete(list, i, i+1); len(list) == 0 {
		delete(d.waiting, k)
	} else {
		d.waiting[k] = list
	}
	waits := d.waits[owner]
	j := slices.Index(waits, k)
	if waits = slices.Delete(waits, j, j+1); len(waits) == 0 {
		delete(d.waits, owner)
	} else {
		d.waits[owner] = waits
	}
}

// contested returns the keys that owners want differently.
func (d *Desired) contested() []netstate.Key {
	var keys []netstate.Key
	for k, list := range d.waiting {
		is, _ := d.state.Get(k)
		if slices.ContainsFunc(list, func(c claim) bool { return c.object != is }) {
			keys = append(keys, k)
		}
	}
	sort.Slice(keys, func(i, j int) bool { return keys[i].Compare(keys[j]) < 0 })
	return keys
}

// put puts o into the state, in place of the object with its key, and keeps what is
// known of the kernel there.
func (d *Desired) put(owner string, o netstate.Object) {
	if was, ok := d.state.Get(o.Key()); ok {
		d.uncount(was)
	}
	d.add(owner, o)
}

// add puts o into the state, which has no object with its key or one that is not
// counted any more.
func (d *Desired) add(owner string, o netstate.Object) {
	d.state.PutFor(owner, o)
	if on := netstate.LinkOf(o); on != "" {
		d.links[on]++
	}
}

func (d *Desired) drop(o netstate.Object) {
	d.state.Delete(o.Key())
	d.uncount(o)
}

func (d *Desired) uncount(o netstate.Object) {
	if on := netstate.LinkOf(o); on != "" {
		if d.links[on]--; d.links[on] == 0 {
			delete(d.links, on)
		}
	}
}

// claimIndex returns the index of owner's claim in list, or -1.
func claimIndex(list []claim, owner string) int {
	return slices.IndexFunc(list, func(c claim) bool { return c.owner == owner })
}

// own reports whether a link is one that the state creates, so that everything on it
// is ours.
func (d *Desired) own(link string) bool {
	_, ok := d.state.Get(netstate.Link{Name: link}.Key())
	return ok
}

// scope returns what a dump must read beyond what has our mark.
func (d *Desired) scope() netstate.Scope {
	s := netstate.Scope{Objects: d.state.Len()}
	for name := range d.links {
		if d.own(name) {
			s.Links = append(s.Links, name)
		}
	}
	for o := range d.state.All() {
		if setting, ok := o.(netstate.Sysctl); ok {
			s.Sysctls = append(s.Sysctls, setting.Path)
		}
	}
	return s
}
