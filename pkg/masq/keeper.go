package masq

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/klog/v2"
)

// Engine is what writes rules.
type Engine interface {
	// Sync has what stands be as wanted, and says whether it had to write.
	Sync(ctx context.Context, r Rules) (changed bool, err error)
}

// Part is one place where rules stand.
type Part struct {
	Name   string // for people
	Engine Engine
	// Wants is what of the rules belongs there. Without it none do, and what an
	// earlier run left is removed once all other parts are as they should be.
	Wants func(Rules) Rules
	// Watch calls poke when it begins, and after each change; nil where nobody
	// tells of any.
	Watch func(ctx context.Context, poke func()) error
	// Every is how often it is looked at whatever is heard of it; never if zero.
	Every time.Duration
}

const (
	// settle is how long to wait after a change for those that come with it.
	settle = 10 * time.Millisecond
	// share is the part of the time, as 1 in so much, that looking may take
	// where others change a great deal, and burst how far ahead of that it may
	// be. However long it took, which may be but a wait for a lock, it is looked at
	// again after longestPause.
	share        = 20
	burst        = 5 * time.Second
	longestPause = 10 * time.Second
	// patience is how often in a row what others undo is put right at once.
	patience = 20
	// quiet is how long nothing is undone after a fight.
	quiet = time.Minute
	// firstWait and lastWait are how long to wait after a failure.
	firstWait, lastWait = 100 * time.Millisecond, time.Minute
)

// Keeper has rules stand where they should, whatever others do to them.
type Keeper struct {
	find    func(context.Context) ([]Part, error)
	changed func()
	poked   chan struct{}

	mu     sync.Mutex
	parts  []*part
	lost   error // why there are none
	want   Rules
	wanted uint64 // counts what was wanted; 0 is nothing yet
}

// part is one with how it does, which the keeper's mu guards.
type part struct {
	Part
	due      time.Time // when to look next; zero is never
	done     uint64    // what was wanted when it was last as it should be
	tried    uint64
	failures int // in a row
	err      error
	undone   int       // how often in a row others undid it
	last     time.Time // when that was
	spent    time.Time // until when all of its share of the time is used
	free     time.Time // when it may be looked at again
	healed   uint64
}

// NewKeeper makes a keeper of the parts that find finds, the first of which come
// first. Changed is called when Status has changed; it must not wait.
func NewKeeper(find func(context.Context) ([]Part, error), changed func()) *Keeper {
	return &Keeper{find: find, changed: changed, poked: make(chan struct{}, 1)}
}

// Want has the keeper keep r from now on.
func (k *Keeper) Want(r Rules) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.wanted > 0 && r.Equal(k.want) {
		return
	}
	k.want = r
	k.wanted++
	for _, p := range k.parts {
		p.due, p.failures = time.Now(), 0
	}
	k.poke()
}

func (k *Keeper) poke() {
	select {
	case k.poked <- struct{}{}:
	default:
	}
}

// Status is how the rules do.
type Status struct {
	Tried  bool   // all that is wanted was tried
	Err    error  // why not all stands as it should
	Healed uint64 // how often what others had done was undone
}

// Status tells how the rules do.
func (k *Keeper) Status() Status {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := Status{Tried: k.wanted > 0 && (k.parts != nil || k.lost != nil)}
	all := []error{k.lost}
	for _, p := range k.parts {
		s.Tried = s.Tried && (p.tried == k.wanted || p.Wants == nil)
		s.Healed += p.healed
		if p.err != nil {
			all = append(all, fmt.Errorf("%s: %w", p.Name, p.err))
		}
	}
	s.Err = errors.Join(all...)
	return s
}

// Run keeps the rules until ctx ends, and leaves them then.
func (k *Keeper) Run(ctx context.Context) {
	k.findParts(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	for _, p := range k.parts {
		if p.Watch != nil {
			watching.Go(func() { k.watch(ctx, p) })
		}
	}
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-k.poked:
		case <-timer.C:
		}
		p, due := k.next()
		for p != nil && time.Until(due) <= 0 && ctx.Err() == nil {
			k.sync(ctx, p)
			p, due = k.next()
		}
		if p != nil {
			timer.Reset(time.Until(due))
		}
	}
}

// findParts finds the parts, which may take more than one try.
func (k *Keeper) findParts(ctx context.Context) {
	for failures := 0; ctx.Err() == nil; failures++ {
		found, err := k.find(ctx)
		k.mu.Lock()
		before := k.lost
		k.lost = err
		if err == nil {
			for _, p := range found {
				k.parts = append(k.parts, &part{Part: p, due: time.Now()})
			}
		}
		k.mu.Unlock()
		if err == nil {
			k.poke()
			return
		}
		if ctx.Err() == nil && (before == nil || before.Error() != err.Error()) {
			klog.ErrorS(err, "Cannot keep rules in this host's firewall; trying again")
		}
		k.changed()
		sleep(ctx, min(firstWait<<min(failures, 10), lastWait))
	}
}

// watch has p looked at whenever something happens to it.
func (k *Keeper) watch(ctx context.Context, p *part) {
	failing := false
	for ctx.Err() == nil {
		begun := false
		err := p.Watch(ctx, func() {
			k.mu.Lock()
			defer k.mu.Unlock()
			failing = failing && !begun // to have begun is not yet to have heard something
			begun = true
			k.look(p, time.Now().Add(settle))
		})
		if ctx.Err() != nil {
			return
		}
		if !failing {
			klog.ErrorS(err, "Lost the watch on the firewall; beginning anew", "rules", p.Name)
		}
		failing = true
		sleep(ctx, time.Second)
	}
}

// look has p looked at, not before at. The caller holds mu.
func (k *Keeper) look(p *part, at time.Time) {
	if at.Before(p.free) {
		at = p.free
	}
	if p.due.IsZero() || at.Before(p.due) {
		p.due = at
		k.poke()
	}
}

// next is the part to look at next, and when; nil if there is none. The first of
// those that are due comes first.
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
		if next == nil || due.After(now) && p.due.Before(due) {
			next, due = p, p.due
		}
	}
	return next, due
}

// sync looks at p.
func (k *Keeper) sync(ctx context.Context, p *part) {
	k.mu.Lock()
	wanted, want := k.wanted, Rules{}
	if p.Wants != nil {
		want = p.Wants(k.want)
	}
	p.due = time.Time{} // what happens from here on is news
	k.mu.Unlock()
	began := time.Now()
	changed, err := p.Engine.Sync(ctx, want)
	if ctx.Err() != nil {
		return
	}
	k.mu.Lock()
	before := p.err
	p.tried, p.err = wanted, err
	now := time.Now()
	p.spend(now.Sub(began), now)
	if err != nil {
		p.failures++
		k.look(p, now.Add(min(firstWait<<min(p.failures-1, 10), lastWait)))
	} else {
		undone := changed && p.done == wanted
		p.failures, p.done = 0, wanted
		if undone {
			p.undo(now)
		}
		if !p.due.IsZero() && p.due.Before(p.free) && wanted == k.wanted {
			p.due = p.free // it was heard of meanwhile
		}
		if p.Every > 0 {
			k.look(p, now.Add(p.Every))
		}
		if changed {
			log := "Wrote the firewall's rules"
			if undone {
				log = "Put right the firewall's rules that others had changed"
			}
			if p.undone <= patience {
				klog.InfoS(log, "rules", p.Name)
			}
		}
	}
	k.mu.Unlock()
	switch {
	case err != nil && (before == nil || before.Error() != err.Error()):
		klog.ErrorS(err, "Could not write the firewall's rules; trying again", "rules", p.Name)
	case err == nil && before != nil:
		klog.InfoS("The firewall's rules are as they should be again", "rules", p.Name)
	}
	k.changed()
}

// spend takes note of how long it took to look.
func (p *part) spend(took time.Duration, now time.Time) {
	if p.spent.Before(now) {
		p.spent = now
	}
	p.spent = p.spent.Add(share * took)
	if latest := now.Add(burst + longestPause); p.spent.After(latest) {
		p.spent = latest
	}
	p.free = p.spent.Add(-burst)
}

// undo takes note that others undid what was written. Who does so again and
// again is answered more and more slowly.
func (p *part) undo(now time.Time) {
	if now.Sub(p.last) > quiet {
		p.undone = 0
	}
	p.last = now
	p.healed++
	if p.undone++; p.undone < patience {
		return
	}
	if p.undone == patience {
		klog.InfoS("Others change the firewall's rules again and again; putting them right less often", "rules", p.Name)
	}
	wait := now.Add(min(firstWait<<min(p.undone-patience, 10), quiet/2))
	if wait.After(p.free) {
		p.free = wait
	}
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
