package kube

import (
	"fmt"
	"hash/maphash"
	"strings"
	"time"

	"github.com/tulle-net/tulle/pkg/kube"
	"github.com/tulle-net/tulle/subnet"
)

// entry is what matters of one Node. An entry in the book is immutable; changes
// replace it.
type entry struct {
	name, uid string
	digest    digest // of all that was read
	revision  int64  // the first known with this content
	created   int64
	managed   bool

	claim    podCIDRs // what the Node's annotation claims
	subnets  podCIDRs // the podCIDRs; until those are read, the claim
	cidrErr  error    // what is wrong with the podCIDRs
	accepted bool     // accepted before the Node's claim changed
	held     bool     // hidden from readers until its podCIDRs are read

	key      string // of its lease, for readers
	lease    subnet.Lease
	notice   *subnet.Notice     // what a controller says of the routes to it; nil if nothing
	valueErr error              // what is wrong with the published values
	bad      *subnet.LeaseError // reported in place of lease
	own      *own               // set for the own Node only
}

// own is what the book also keeps of the own Node.
type own struct {
	values  values // of the annotations
	facts   Facts
	ignored error // what is wrong with annotations that people wrote
	plain   bool  // the podCIDRs are spelled as in a claim
	network Condition
	known   bool // the Node has the condition network
}

// noExpiry is the end of every lease: a Node's lease ends only with the Node.
var noExpiry = time.Unix(1<<33, 0)

// digest is a hash of what a Node says.
type digest struct {
	all   uint64 // except the podCIDRs
	cidrs uint64
	whole bool // the podCIDRs were read
}

// differsFrom reports whether d contains anything that e lacks.
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

// entryOf returns an entry for a Node. If the Node says nothing new, it returns the
// present entry and allocates nothing. The caller holds mu.
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
		if n, err := subnet.ParseNotice(string(all[routed])); err == nil && n != (subnet.Notice{}) { // one that cannot be read is none
			e.notice = &n
		}
	}
	e.settle()
	return e
}

// settle sets the fields that readers see.
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

// verified reports whether e's podCIDRs were read, and not only its claim.
func (e *entry) verified() bool { return e.digest.whole }

// withoutPodCIDRs reports whether e had no podCIDRs when they were read. It may get
// some later, once.
func (e *entry) withoutPodCIDRs() bool {
	return e.verified() && e.cidrErr == nil && e.subnets == podCIDRs{}
}

// holds reports whether e has subnets that no other Node may have.
func (e *entry) holds() bool {
	return (e.managed || e.own != nil) && e.subnets != podCIDRs{}
}

// claimMatches reports whether e claims exactly what it has, as far as that is known.
func (e *entry) claimMatches() bool {
	return e.claim == e.subnets && e.claim != podCIDRs{}
}

// overlaps reports whether e and other have a part of the same subnets.
func (e *entry) overlaps(other *entry) bool {
	for f, p := range e.subnets {
		if p.IsValid() && p.Overlaps(other.subnets[f]) {
			return true
		}
	}
	return false
}

// before reports whether e is the elder Node, the same way on every node.
func (e *entry) before(other *entry) bool {
	if e.created != other.created {
		return e.created < other.created
	}
	return strings.Compare(e.name, other.name) < 0
}
