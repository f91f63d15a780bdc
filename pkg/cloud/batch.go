package cloud

import (
	"context"
	"sync"
	"time"
)

const (
	// gatherTime is how long a Batch waits for the keys of other callers before it reads.
	gatherTime = 50 * time.Millisecond
	// cacheTime is how long a Batch returns an instance from its cache.
	cacheTime = time.Second
	// offerTime is how long a Batch caches an instance from Offer. When many Nodes
	// appear at once, they get their provider IDs within that time.
	offerTime = 3 * time.Second
	// batchLimit is the timeout of one read. The controllers wait for 30 s, so they still
	// get the instances that a read has found by its timeout.
	batchLimit = 25 * time.Second
)

// Batch reads instances for several controllers that need the same ones at the same time,
// such as those of new Nodes. It combines the requests of 50 ms into one read, and caches
// the instances for a second. It is safe for concurrent use.
type Batch struct {
	read func(ctx context.Context, keys []string) (map[string]Instance, error)

	mu    sync.Mutex
	next  *batch // gathers keys; nil while no caller waits for the next read
	known map[string]cached
}

// batch is one read.
type batch struct {
	keys map[string]bool
	done chan struct{} // closed when all and err are set
	all  map[string]Instance
	err  error
}

// cached is an instance in the cache of a Batch.
type cached struct {
	value Instance
	until time.Time
}

// NewBatch returns a Batch that reads instances with this method.
func NewBatch(read func(ctx context.Context, keys []string) (map[string]Instance, error)) *Batch {
	return &Batch{read: read, known: make(map[string]cached)}
}

// Instances returns the instances of keys. If it also returns an error, the state of each
// key that is missing from the result is unknown.
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

// join adds the cached instances of keys to all. It returns the read that will return the
// other keys, or nil if the cache had them all.
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
		time.AfterFunc(gatherTime, b.run)
	}
	for _, k := range unknown {
		b.next.keys[k] = true
	}
	return b.next
}

// run reads the gathered keys. The read does not depend on the context of any caller,
// because other callers may still wait for it.
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
		b.known[k] = cached{i, now.Add(cacheTime)}
	}
	b.mu.Unlock()
	close(mine.done)
}

// Offer adds the running instances that another read has found to the cache.
func (b *Batch) Offer(found map[string]Instance) {
	b.mu.Lock()
	defer b.mu.Unlock()
	until := time.Now().Add(offerTime)
	for k, i := range found {
		if i.Problem == "" && i.State == Running {
			b.known[k] = cached{i, until}
		}
	}
}
