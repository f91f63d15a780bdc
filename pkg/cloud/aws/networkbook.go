package aws

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/tulle-net/tulle/pkg/awsnet"
)

const (
	// recall is the maximum age of a complete reading that later ones build on.
	recall = time.Hour
	// settling is how long AWS may omit a new object from its answers.
	settling = time.Minute
	// mostNetworks is the maximum number of networks that a Client remembers.
	mostNetworks = 256
)

// networkBook remembers complete readings, and the objects that the Client created.
type networkBook struct {
	mu      sync.Mutex
	last    map[NetworkScope]*networkReading
	running map[*networkReader]bool // complete readings, and whether a change made them stale
	born    map[string]birth        // objects that the Client created in the last minute, by ID
	answers map[string]string       // objects created with a client token, by ID
	doubts  map[doubt]time.Time     // times of creations without an answer
	counts  map[awsnet.Kind]int     // of the region's objects, by a reading with Count
	atCount time.Time               // when counts were read
}

// birth is when an object was created, and with which tags.
type birth struct {
	at   time.Time
	tags map[string]string
}

// networkReading is a complete reading, and the progress of the short readings that
// check it.
type networkReading struct {
	facts facts
	began time.Time
	next  int // the slow part to read next
}

// begin records that a complete reading begins, and end records its end.
func (b *networkBook) begin(r *networkReader) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.running == nil {
		b.running = make(map[*networkReader]bool)
	}
	b.running[r] = false
}

func (b *networkBook) end(r *networkReader) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.running, r)
}

// changed forgets an owner's readings and the counts of the region, because a change
// begins or has ended. It keeps the readings of other owners: they check shared objects
// like all others.
func (b *networkBook) changed(o awsnet.Owner) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.counts, b.atCount = nil, time.Time{}
	same := func(s NetworkScope) bool { return s.Owner.Cluster == o.Cluster && s.Owner.UID == o.UID }
	for r := range b.running {
		b.running[r] = b.running[r] || same(r.scope)
	}
	maps.DeleteFunc(b.last, func(s NetworkScope, _ *networkReading) bool { return same(s) })
}

// counted keeps how many objects the region has, and countOf returns it while it is new.
func (b *networkBook) counted(all map[awsnet.Kind]int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.counts, b.atCount = all, time.Now()
}

func (b *networkBook) countOf(k awsnet.Kind) (n int, known bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch k {
	case awsnet.KindVPC, awsnet.KindInternetGateway, awsnet.KindAddress:
		return b.counts[k], !b.atCount.IsZero() && time.Since(b.atCount) < settling
	}
	return 0, false
}

// recall returns the remembered reading of a network, or nil.
func (b *networkBook) recall(s NetworkScope) (*networkReading, int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	last := b.last[s]
	if last == nil || time.Since(last.began) > recall {
		return nil, 0
	}
	return last, last.next
}

// remember stores a reading, unless objects are still settling or a change has begun
// since. Later readings need not count to build on one that did.
func (b *networkBook) remember(r *networkReader, settled bool, began time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := r.scope
	s.Count = false
	if !settled || b.running[r] {
		delete(b.last, s)
		return
	}
	if b.last == nil {
		b.last = make(map[NetworkScope]*networkReading)
	}
	if b.last[s] == nil && len(b.last) >= mostNetworks {
		oldest := slices.MinFunc(slices.Collect(maps.Keys(b.last)), func(x, y NetworkScope) int { return b.last[x].began.Compare(b.last[y].began) })
		delete(b.last, oldest)
	}
	b.last[s] = &networkReading{facts: r.facts, began: began}
}

func (b *networkBook) advance(s NetworkScope, r *networkReading, next int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.last[s] == r {
		r.next = next
	}
}

func (b *networkBook) forget(s NetworkScope) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.last, s)
}

// created records an object that the Client has created.
func (b *networkBook) created(id string, tags map[string]string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.born == nil {
		b.born = make(map[string]birth)
	}
	for other, is := range b.born {
		if time.Since(is.at) > settling {
			delete(b.born, other)
		}
	}
	b.born[id] = birth{time.Now(), tags}
}

func (b *networkBook) deleted(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.born, id)
}

// isNew reports whether the Client created one of these objects in the last minute.
func (b *networkBook) isNew(ids []string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.ContainsFunc(ids, func(id string) bool {
		is, ok := b.born[id]
		return ok && time.Since(is.at) <= settling
	})
}

// mostTokensKept is the maximum number of client tokens that a Client remembers.
const mostTokensKept = 1000

// answered returns the ID of the object that was created with a token, or "".
func (b *networkBook) answered(token string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.answers[token]
}

func (b *networkBook) answer(token, id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.answers == nil || len(b.answers) >= mostTokensKept {
		b.answers = make(map[string]string)
	}
	if token != "" {
		b.answers[token] = id
	}
}

// unseen returns an object, and its age, that the Client recently created for an owner
// and that a reading of its kind lacks. Without this check, a plan would create the
// object twice.
func (b *networkBook) unseen(o awsnet.Owner, f facts) (string, time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(b.born)) {
		if age := time.Since(b.born[id].at); age <= settling && o.Owns(b.born[id].tags) && f.covers(id) && !f.shows(id) {
			return id, age
		}
	}
	return "", 0
}
