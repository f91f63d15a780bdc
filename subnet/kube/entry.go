package kube

import (
	"fmt"
	"hash/maphash"
	"strings"
	"time"

	"github.com/tulle-net/tulle/pkg/kube"
	"github.com/tulle-net/tulle/subnet"
)

// entry is one Node as far as it matters. Once it is in the book it is never
// changed, but replaced.
type entry struct {
	name, uid string
	digest    digest // of all that was read from it
	revision  int64  // when that was so first, as far as is known
	created   int64
	managed   bool

	claim    podCIDRs // what it says it has
	subnets  podCIDRs // what it has, or is believed to have
	cidrErr  error    // with its podCIDRs
	believed bool     // from before it was replaced
	held     bool     // nobody is told of it until its podCIDRs were read

	key      string // under which watchers know it
	lease    subnet.Lease
	valueErr error              // what is wrong with what it publishes
	bad      *subnet.LeaseError // in the place of lease
	own      *own               // of the node's own alone
}

// own is what more there is to know of the node's own Node.
type own struct {
	values  values // as they stand there
	facts   Facts
	ignored error // what people wrote there that is of no use
	plain   bool  // the podCIDRs stand there in the words of a claim
	network Condition
	known   bool // network is: there is such a condition
}

// noExpiry is the end of every lease: a Node's lease ends with the Node alone.
var noExpiry = time.Unix(1<<33, 0)

// digest is of what a Node says.
type digest struct {
	all   uint64 // but the podCIDRs
	cidrs uint64
	whole bool // the podCIDRs were there to be read
}

// differsFrom reports whether d says anything that e does not.
func (d digest) differsFrom(e *entry) bool {
	return d.all != e.digest.all || d.whole && d != e.digest
}

func (b *book) digest(v *kube.Node, all *values, isOwn bool) digest {
	var h maphash.Hash
	h.SetSeed(b.seed)
	add := func(text []byte) {
		n := len(text)
		_, _ = h.Write([]byte{byte(n), byte(n >> 8), byte(n >> 16), byte(n >> 24)})
		_, _ = h.Write(text)
	}
	d := digest{whole: !v.MetadataOnly}
	for _, c := range v.PodCIDRs() {
		add(c)
	}
	d.cidrs = h.Sum64()
	h.Reset()
	add(v.UID)
	for _, value := range all {
		if value == nil {
			_ = h.WriteByte(1)
			continue
		}
		add(value)
	}
	if isOwn {
		for _, a := range v.Addresses {
			add(a.Kind)
			add(a.Address)
		}
		add(v.Unavailable.Status)
		add(v.Unavailable.Reason)
		add(v.Unavailable.Message)
	}
	d.all = h.Sum64()
	return d
}

// entryOf makes an entry of a Node, or finds the one that there is if it says the
// same: that costs nothing but the reading. The caller holds mu.
func (b *book) entryOf(v *kube.Node) *entry {
	all := b.annotations.of(v)
	isOwn := string(v.Name) == b.name
	d := b.digest(v, &all, isOwn)
	if before := b.nodes[string(v.Name)]; before != nil && !d.differsFrom(before) {
		return before
	}
	e := &entry{
		name: string(v.Name), uid: string(v.UID), digest: d, revision: v.Revision, created: v.Created,
		managed: string(all[managed]) == "true", claim: parseClaim(all[claimed]),
	}
	if e.subnets = e.claim; d.whole {
		e.subnets, e.cidrErr = parseCIDRs(v.PodCIDRs())
	}
	if isOwn {
		e.own = &own{}
		for f, value := range all {
			if value != nil {
				e.own.values[f] = append([]byte{}, value...)
			}
		}
		e.own.facts, e.own.ignored = factsOf(v, &all)
		e.own.plain = isPlain(v.PodCIDRs())
		e.own.network, e.own.known = conditionOf(v.Unavailable)
	}
	if e.managed {
		e.lease.Attrs, e.valueErr = all.attrs()
		if e.lease.Node.Name == "" {
			e.lease.Node.Name = e.name
		}
	}
	e.settle()
	return e
}

// settle makes of e what watchers are told of it.
func (e *entry) settle() {
	if !e.managed {
		return
	}
	if e.key = subnet.FormatKey(e.subnets); e.key == "" {
		e.key = e.name
	}
	err := e.valueErr
	switch {
	case e.cidrErr != nil:
		err = e.cidrErr
	case e.subnets == (podCIDRs{}):
		err = fmt.Errorf("%w: the Node has no podCIDR", subnet.ErrKey)
	}
	if e.bad = nil; err != nil {
		e.bad = &subnet.LeaseError{Key: e.key, Err: fmt.Errorf("of the Node %s: %w", e.name, err)}
	}
	e.lease.Subnets, e.lease.Expires, e.lease.Revision, e.lease.Created = e.subnets, noExpiry, e.revision, e.created
}

// verified says whether the podCIDRs were read, and not what is claimed alone.
func (e *entry) verified() bool { return e.digest.whole }

// withoutPodCIDRs reports whether e had no podCIDRs when they were read; it may be given
// some, once.
func (e *entry) withoutPodCIDRs() bool {
	return e.verified() && e.cidrErr == nil && e.subnets == podCIDRs{}
}

// holds says whether e has subnets that nobody else is to have.
func (e *entry) holds() bool {
	return (e.managed || e.own != nil) && e.subnets != podCIDRs{}
}

// claimMatches reports whether e claims what it has, as far as that is known.
func (e *entry) claimMatches() bool {
	return e.claim == e.subnets && e.claim != podCIDRs{}
}

// overlaps says whether e and other have a part of the same subnets.
func (e *entry) overlaps(other *entry) bool {
	for f, p := range e.subnets {
		if p.IsValid() && p.Overlaps(other.subnets[f]) {
			return true
		}
	}
	return false
}

// before says whether e was there first; every node says the same.
func (e *entry) before(other *entry) bool {
	if e.created != other.created {
		return e.created < other.created
	}
	return strings.Compare(e.name, other.name) < 0
}
