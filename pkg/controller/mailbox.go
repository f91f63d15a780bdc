package controller

import "sync"

// mailbox holds what a feed has read and the loop has not taken yet: the last state of each
// object. So the reader never waits for the loop, however long a plan takes, and the mailbox
// is never larger than the set of objects.
type mailbox[V any] struct {
	mu   sync.Mutex
	held mail[V]
}

// mail is the content of a mailbox.
type mail[V any] struct {
	list    *fullList[V]         // nil if no list was read
	changes map[string]change[V] // by key, after the list
}

// fullList is a full list of the objects.
type fullList[V any] struct {
	all    map[string]V
	wanted int64 // the list that was wanted when its session began, counted by relist
	number int64 // its place among the lists that have begun
}

// change is the last state of an object.
type change[V any] struct {
	value V
	gone  bool
}

// replace replaces everything with a full list.
func (b *mailbox[V]) replace(l fullList[V]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held = mail[V]{list: &l}
}

// put adds a change, which replaces an earlier one of the same object.
func (b *mailbox[V]) put(key string, c change[V]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.held.changes == nil {
		b.held.changes = make(map[string]change[V])
	}
	b.held.changes[key] = c
}

// take empties the mailbox.
func (b *mailbox[V]) take() mail[V] {
	b.mu.Lock()
	defer b.mu.Unlock()
	taken := b.held
	b.held = mail[V]{}
	return taken
}
