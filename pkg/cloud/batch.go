package cloud

import (
	"context"
	"sync"
	"time"
)

const (
	// gather is how long a Batch waits for the keys of other callers.
	gather = 50 * time.Millisecond
	// young is how long an answer also serves other callers.
	young = time.Second
	// offered is how long an answer of another read does. The Nodes of a rush get their
	// provider IDs within that time.
	offered = 3 * time.Second
	// batchLimit is how long one read may take. The controllers wait for 30 s, so what a
	// read has found by its end still reaches them.
	batchLimit = 25 * time.Second
)

// Batch reads instances for several controllers that ask for the same ones at the same
// time, as for Nodes that have just appeared. Requests within 50 ms become one read, and
// a complete answer is given again for a second. It is safe for concurrent use.
type Batch struct {
	read func(ctx context.Context, keys []string) (map[string]Instance, error)

	mu    sync.Mutex
	next  *batch // gathers keys; nil if none is asked for
	known map[string]answered
}

// batch is one read.
type batch struct {
	keys map[string]bool
	done chan struct{} // closed when the following is set
	all  map[string]Instance
	err  error
}

type answered struct {
	value Instance
	until time.Time
}

// NewBatch returns a Batch of a method that reads instances.
func NewBatch(read func(ctx context.Context, keys []string) (map[string]Instance, error)) *Batch {
	return &Batch{read: read, known: make(map[string]answered)}
}

// Instances returns the instances of keys. With an error, the keys that are missing are
// unknown.
func (b *Batch) Instances(ctx context.Context, keys []string) (map[string]Instance, error) {
	all := make(map[string]Instance, len(keys))
	mine := b.join(keys, all)
	if mine == nil {
		return all, nil
	}
	select {
	case <-mine.done:
	case <-ctx.Done():
		return all, &Error{Kind: Unavailable, Action: "read instances", Text: ctx.Err().Error()}
	}
	missing := false
	for _, k := range keys {
		if _, has := all[k]; has {
			continue
		}
		if i, ok := mine.all[k]; ok {
			all[k] = i
		} else {
			missing = true
		}
	}
	if missing {
		return all, mine.err
	}
	return all, nil
}

// join adds to all what is known of keys, and returns the read that will have the
// others, or nil if there are none.
func (b *Batch) join(keys []string, all map[string]Instance) *batch {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	for k, a := range b.known {
		if !now.Before(a.until) {
			delete(b.known, k)
		}
	}
	var unknown []string
	for _, k := range keys {
		if a, ok := b.known[k]; ok {
			all[k] = a.value
		} else {
			unknown = append(unknown, k)
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	if b.next == nil {
		b.next = &batch{keys: make(map[string]bool), done: make(chan struct{})}
		time.AfterFunc(gather, b.run)
	}
	for _, k := range unknown {
		b.next.keys[k] = true
	}
	return b.next
}

// run reads what was gathered. A caller that stops waiting ends no read that others wait
// for.
func (b *Batch) run() {
	b.mu.Lock()
	mine := b.next
	b.next = nil
	b.mu.Unlock()
	keys := make([]string, 0, len(mine.keys))
	for k := range mine.keys {
		keys = append(keys, k)
	}
	ctx, cancel := context.WithTimeout(context.Background(), batchLimit)
	defer cancel()
	mine.all, mine.err = b.read(ctx, keys)
	now := time.Now()
	b.mu.Lock()
	for k, i := range mine.all {
		b.known[k] = answered{i, now.Add(young)}
	}
	b.mu.Unlock()
	close(mine.done)
}

// Offer records running instances that another read has found. Callers that soon ask for
// their keys get them.
func (b *Batch) Offer(found map[string]Instance) {
	b.mu.Lock()
	defer b.mu.Unlock()
	until := time.Now().Add(offered)
	for k, i := range found {
		if i.Problem == "" && i.State == Running {
			b.known[k] = answered{i, until}
		}
	}
}
