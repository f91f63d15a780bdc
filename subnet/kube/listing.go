package kube

import "github.com/tulle-net/tulle/pkg/kube"

// scope selects Nodes: the own one or all others.
type scope int

const (
	others scope = iota // all but the node's own
	itself
	scopes
)

// in reports whether a Node is in scope s. The caller holds mu.
func (b *book) in(s scope, name string) bool {
	return (b.name != "" && name == b.name) == (s == itself)
}

// listing collects the Nodes of a scope as they arrive.
type listing struct {
	book   *book
	scope  scope
	nodes  map[string]*entry
	newest int64
}

func (b *book) listing(s scope) *listing {
	return &listing{book: b, scope: s, nodes: make(map[string]*entry)}
}

// add adds a Node, and reports whether it was not in the listing.
func (l *listing) add(v *kube.Node) (isNew bool) {
	b := l.book
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.in(l.scope, string(v.Name)) {
		return false
	}
	before := len(l.nodes)
	l.nodes[string(v.Name)] = b.entryOf(v)
	l.newest = v.Revision
	return len(l.nodes) > before
}

// replace replaces the Nodes of a scope by a complete list. The list may be older
// than the book if the cluster was restored from a backup.
func (b *book) replace(l *listing) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if l.scope == itself {
		b.newest = l.newest
	}
	for name, e := range b.nodes {
		if b.in(l.scope, name) && l.nodes[name] == nil {
			b.drop(e)
		}
	}
	// Enter all claims before judging any.
	var placed []*entry
	for _, e := range l.nodes {
		if e = b.enter(e); e != nil {
			placed = append(placed, e)
		}
	}
	for _, e := range placed {
		b.judge(e)
		b.tellOf(e)
	}
	b.listed[l.scope] = true
	if l.scope == others {
		for r := range b.readers {
			r.all = true
		}
	}
	b.wake()
}
