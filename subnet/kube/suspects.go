package kube

import (
	"context"
	"net/http"

	"github.com/tulle-net/tulle/pkg/kube"
)

// maxSingleFetches is how many suspects are fetched one by one. With more, the watch
// asks for whole Nodes.
const maxSingleFetches = 16

// judge decides whether to accept e, which was just entered, and marks the Nodes to
// fetch whole: e and the Nodes that it conflicts with. A new Node is held back until
// it is verified. A Node that was accepted before stays so meanwhile; otherwise a
// false claim could remove a living node. The caller holds mu.
func (b *book) judge(e *entry) {
	contested := false
	if b.holders.contested(e) {
		for _, other := range b.nodes {
			if other == e || !other.holds() || !other.overlaps(e) {
				continue
			}
			contested = true
			b.markDoubtful(other)
		}
	}
	if !e.verified() && e.managed && (contested || !e.claimMatches() || !b.holders.plausible(e)) {
		e.held = !e.accepted
		b.markDoubtful(e)
	}
}

// markDoubtful marks e to be fetched whole, and reports whether it was not marked
// yet.
func (b *book) markDoubtful(e *entry) bool {
	if _, already := b.doubts[e.name]; already || !e.managed || e.verified() && !e.withoutPodCIDRs() {
		return false
	}
	b.doubts[e.name] = 0
	return true
}

// reshape sets the shape of the own podCIDRs after it changed, and marks Nodes of any
// other shape to be verified.
func (b *book) reshape(s shape) {
	h := &b.holders
	h.shape = s
	clear(h.otherShape)
	for _, e := range b.nodes {
		if !e.holds() || shapeOf(e.subnets) == s {
			continue
		}
		h.otherShape[e] = struct{}{}
		b.markDoubtful(e)
	}
}

// verdict records a Node that was fetched whole, and reports whether it is still the
// same Node. From now on its podCIDRs count, because a Node's podCIDRs never change.
// The rest comes from the watch.
func (b *book) verdict(v *kube.Node) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	before := b.nodes[string(v.Name)]
	if before == nil || before.uid != string(v.UID) {
		return false
	}
	seen := b.doubts[before.name]
	delete(b.doubts, before.name)
	if !before.verified() || before.withoutPodCIDRs() {
		e := *before
		e.digest.cidrs, e.digest.whole = b.digest(v, &values{}, false).cidrs, true
		e.subnets, e.cidrErr = parseCIDRs(v.PodCIDRs())
		e.held = false
		e.settle()
		b.put(&e)
		if e.withoutPodCIDRs() && seen > v.Revision { // it may have got some since
			b.markDoubtful(b.nodes[e.name])
		}
	}
	b.wake()
	return true
}

// nextDoubtful returns a Node to fetch whole. It returns "" if there is none, or if
// so many that the watch asks for whole Nodes.
func (b *book) nextDoubtful() (name string, none bool, changed <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.doubts) <= b.limit {
		for name = range b.doubts { // a random one, so that each gets its turn
			break
		}
	}
	return name, len(b.doubts) == 0 && b.limit > 0, b.changed
}

// exceedsFetches reports whether a list has too many Nodes to fetch one by one. Such
// a list is not applied, because some Nodes would disappear for a moment.
func (b *book) exceedsFetches(l *listing) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for name, e := range l.nodes {
		before := b.nodes[name]
		if e.managed && !e.verified() && !b.holders.plausible(e) && (before == nil || before.uid != e.uid || before.held) {
			n++
		}
	}
	return n > b.limit
}

// crowded reports whether there are too many suspects to fetch one by one.
func (b *book) crowded() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.doubts) > b.limit
}

// allow sets how many Nodes may be fetched one by one, and reports whether that
// changed.
func (b *book) allow(n int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	was := b.limit
	b.limit = n
	b.wake()
	return was != n
}

// metadataSuffices reports whether nearly all Nodes have a claim that can be
// accepted.
func (b *book) metadataSuffices() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.holders.shaped() || len(b.doubts) > b.limit {
		return false
	}
	silent := 0
	for _, e := range b.nodes {
		if e.managed && e.own == nil && !(e.claimMatches() && b.holders.plausible(e)) {
			silent++
		}
	}
	return silent <= b.limit
}

const checking = "verifying what Nodes claim"

// check fetches suspects one after the other until ctx ends.
func (s *Store) check(ctx context.Context) {
	for failures := 0; ctx.Err() == nil; {
		name, none, changed := s.book.nextDoubtful()
		if none {
			s.trouble.Over(checking)
		}
		if name == "" {
			_ = wait(ctx, changed)
			continue
		}
		attempt, cancel := context.WithTimeout(ctx, try)
		v, err := s.node(attempt, name)
		cancel()
		switch {
		case err == nil && s.book.verdict(v):
			failures = 0
			continue
		case err == nil || kube.Code(err) == http.StatusNotFound: // the watch will report that it is gone
		case kube.Code(err) == http.StatusForbidden: // whole Nodes from the list for a while
			s.trouble.Failed(checking, err)
			s.book.allow(0)
			s.others.watch.Restart()
		case ctx.Err() == nil:
			s.trouble.Failed(checking, err)
		}
		failures++
		_ = kube.Pause(ctx, failures, err)
	}
}
