package firewall

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/tulle-net/tulle/pkg/budget"
	"github.com/tulle-net/tulle/pkg/retry"
	"github.com/tulle-net/tulle/pkg/trouble"
	"github.com/tulle-net/tulle/subnet"
)

// Engine writes rules.
type Engine interface {
	// Sync changes the present rules to the wanted ones, and reports whether it had to
	// write.
	Sync(ctx context.Context, r Rules) (changed bool, err error)
}

// settle is the wait after a change for further ones that belong to it.
const settle = 2 * time.Millisecond

// backoff is the wait after failures.
var backoff = retry.Backoff{First: 100 * time.Millisecond, Last: time.Minute}

// Find returns the parts for rules, in the order of their precedence. nftables is the
// network config's choice.
type Find func(ctx context.Context, nftables subnet.Choice) ([]Part, error)

// Keeper keeps rules in place, whatever other programs change.
type Keeper struct {
	find    Find
	changed func()
	poked   retry.Wakeup
	account *budget.Account // for what checks and repairs cost

	mu       sync.Mutex
	parts    []*part
	fights   budget.Fights[string] // by the names of parts
	found    subnet.Choice         // the choice for which the parts were found
	sought   subnet.Choice         // the last choice for which parts were sought
	finding  trouble.Outcome       // of the search for parts
	failures int                   // of the search, in a row
	again    time.Time             // when to retry
	healed   uint64                // by former parts
	want     Rules
	wanted   uint64        // counts versions of what is wanted; 0 means none yet
	turned   chan struct{} // closed when something was tried, and replaced
}

// NewKeeper returns a keeper. It spends from account what foreign changes cost. It
// calls changed when Status has changed; changed must not block.
func NewKeeper(find Find, account *budget.Account, changed func()) *Keeper {
	return &Keeper{find: find, changed: changed, account: account, poked: retry.NewWakeup(), turned: make(chan struct{}),
		finding: trouble.Outcome{Failed: "Failed to find a firewall for the rules; retrying", EachReason: true}}
}

// Want sets the rules that the keeper keeps from now on.
func (k *Keeper) Want(r Rules) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.wanted > 0 && r.Equal(k.want) {
		return
	}
	k.want = r
	k.wanted++
	for _, p := range k.parts {
		p.due, p.ours, p.failures = time.Now(), true, 0
	}
	k.poked.Wake()
}

// Status is the state of the rules.
type Status struct {
	Tried  bool                    // everything that is wanted was tried
	Err    error                   // why not all wanted rules are in place
	Healed uint64                  // the number of foreign changes that were undone
	Others []string                // foreign rules that ours cannot prevent from doing harm
	Fights map[string]budget.Fight // rules that other programs keep changing, by part
}

// Status returns the state of the rules.
func (k *Keeper) Status() Status {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := Status{Tried: k.tried(), Healed: k.healed, Fights: k.fights.All(time.Now())}
	all := []error{k.finding.Err()}
	for _, p := range k.parts {
		s.Healed += p.healed
		if p.Tell != nil {
			s.Others = append(s.Others, p.Tell()...)
		}
		if err := p.outcome.Err(); err != nil {
			all = append(all, fmt.Errorf("%s: %w", p.Name, err))
		} else if f, ok := s.Fights[p.Name]; ok && f.Lost() {
			all = append(all, fmt.Errorf("%s: %s", p.Name, f))
		}
	}
	s.Err = errors.Join(all...)
	return s
}

// Run keeps the rules until ctx ends, and leaves them in place.
func (k *Keeper) Run(ctx context.Context) {
	var w watches
	defer w.end()
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-k.poked:
		case <-timer.C:
		}
		k.sweep()
		k.findParts(ctx, &w)
		p, due := k.next()
		for p != nil && time.Until(due) <= 0 && ctx.Err() == nil {
			k.sync(ctx, p)
			p, due = k.next()
		}
		if at, ok := k.wakeUp(p, due); ok {
			timer.Reset(time.Until(at))
		}
	}
}

// wakeUp returns when the keeper next has something to do, if ever. p is the next part,
// which is due then.
func (k *Keeper) wakeUp(p *part, due time.Time) (at time.Time, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	at, ok = k.fights.Due()
	if again := k.again; !again.IsZero() && (!ok || again.Before(at)) {
		at, ok = again, true
	}
	if p != nil && (!ok || due.Before(at)) {
		at, ok = due, true
	}
	return at, ok
}

// schedule sets the next check of p to at, or later if its account requires that. The
// caller holds mu.
func (k *Keeper) schedule(p *part, at time.Time) {
	if p.due.IsZero() || at.Before(p.due) {
		p.due = at
		k.poked.Wake()
	}
}

// next returns the part to check next, and when, or nil if there is none. Of several
// due parts, it returns the first.
func (k *Keeper) next() (next *part, due time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.wanted == 0 {
		return nil, due
	}
	now := time.Now()
	standing := !slices.ContainsFunc(k.parts, func(p *part) bool { return p.Wants != nil && p.done != k.wanted })
	for _, p := range k.parts {
		if p.due.IsZero() || p.Wants == nil && !standing {
			continue
		}
		at := p.due
		if turn := k.account.When(now, budget.Shared, p.looked); !p.ours && turn.After(at) {
			at = turn
		}
		if next == nil || due.After(now) && at.Before(due) {
			next, due = p, at
		}
	}
	return next, due
}

// sync checks p and restores it.
func (k *Keeper) sync(ctx context.Context, p *part) {
	k.mu.Lock()
	wanted, want := k.wanted, Rules{}
	if p.Wants != nil {
		want = p.Wants(k.want)
	}
	ours, heard := p.ours, p.heard
	p.due, p.ours, p.heard = time.Time{}, false, time.Time{} // later changes count as new
	k.mu.Unlock()
	began, stop := time.Now(), k.account.Measure()
	changed, err := p.Engine.Sync(ctx, want)
	cost := stop()
	if ctx.Err() != nil {
		return
	}
	k.mu.Lock()
	now, last := time.Now(), p.looked
	p.tried, p.looked = wanted, now
	undone := err == nil && changed && p.done == wanted
	switch {
	case undone:
		k.account.Heal(now, cost)
	case !ours:
		k.account.Check(now, cost)
	}
	if err != nil {
		p.failures++
		k.schedule(p, now.Add(backoff.After(p.failures)))
	} else {
		p.failures, p.done = 0, wanted
		if heard.IsZero() {
			heard = p.wrongSince(last, began)
		}
		switch {
		case undone:
			k.undone(p, heard, now)
		case changed:
			klog.InfoS("Wrote the firewall's rules", "rules", p.Name)
		}
		if p.Every > 0 {
			k.schedule(p, now.Add(k.interval(p)))
		}
	}
	p.outcome.Was(err, "rules", p.Name)
	k.turn()
	k.mu.Unlock()
	k.changed()
}
