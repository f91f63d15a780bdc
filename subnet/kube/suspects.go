package kube

import (
	"context"
	"net/http"

	"github.com/tulle-net/tulle/pkg/kube"
)

// maxSingleFetches is how many Nodes are asked for one by one; for more of them whole Nodes are
// watched.
const maxSingleFetches = 16

// judge decides whether e is to be believed, which was just placed, and whether
// others are still: who is not sure to have its subnets is fetched whole. Somebody
// new is held back until then. Who was believed before is so until more is known,
// or a claim were enough to have a living node be taken for gone. The caller holds
// mu.
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
		e.held = !e.believed
		b.markDoubtful(e)
	}
}

// markDoubtful marks e to be fetched whole, and reports whether it was not yet.
func (b *book) markDoubtful(e *entry) bool {
	if _, already := b.doubts[e.name]; already || !e.managed || e.verified() && !e.withoutPodCIDRs() {
		return false
	}
	b.doubts[e.name] = 0
	return true
}

// reshape takes in that the own podCIDRs have come to be of another shape: who was
// believed because of the old one is looked at again.
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

// verdict takes in a Node that was fetched whole, and says whether it is the one
// that was meant. Its podCIDRs count from now on, for a Node never gets others; all
// else comes from the watch.
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
		if e.withoutPodCIDRs() && seen > v.Revision { // it may have been given some since
			b.markDoubtful(b.nodes[e.name])
		}
	}
	b.wake()
	return true
}

// nextDoubtful is a Node that is to be fetched whole; "" where there is none, or where
// they come with all others.
func (b *book) nextDoubtful() (name string, none bool, changed <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.doubts) <= b.limit {
		for name = range b.doubts { // another at each try
			break
		}
	}
	return name, len(b.doubts) == 0 && b.limit > 0, b.changed
}

// exceedsFetches reports whether too many Nodes of a list would have to be asked for one by one.
// It is not taken in then: some would be gone for a moment.
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

// crowded says whether there are too many suspects to ask for them one by one.
func (b *book) crowded() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.doubts) > b.limit
}

// allow sets how many Nodes may be asked for one by one, and says whether it was
// another number.
func (b *book) allow(n int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	was := b.limit
	b.limit = n
	b.wake()
	return was != n
}

// metadataSuffices reports whether next to all Nodes say in their metadata what there is to
// know of them.
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

// check fetches suspects, one after the other, until ctx ends.
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
		case err == nil || kube.Code(err) == http.StatusNotFound: // the watch will tell that it is gone
		case kube.Code(err) == http.StatusForbidden: // then it is lists alone for a while
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
