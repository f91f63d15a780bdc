package firewall

import (
	"context"
	"sync"
	"time"

	"github.com/tulle-net/tulle/pkg/retry"
	"github.com/tulle-net/tulle/pkg/trouble"
)

// Part is one place where rules stand.
type Part struct {
	Name   string // for people
	Engine Engine
	// Wants is what of the rules belongs there. Without it none do, and what an
	// earlier run left is removed once all other parts hold what is wanted.
	Wants func(Rules) Rules
	// Watch calls poke when it begins, and after each change; nil where no
	// changes are announced.
	Watch func(ctx context.Context, poke func()) error
	// Tell tells what others do that rules cannot help; nil where there is none.
	Tell func() []string
	// Every is how often the keeper polls it, beside what Watch reports; never if
	// zero.
	Every time.Duration
}

// part is one with how it does, which the keeper's mu guards.
type part struct {
	Part
	due      time.Time // when to look next, if the account allows; zero is never
	ours     bool      // for what is newly wanted, whatever that costs
	heard    time.Time // when a change was heard of first; zero while none was
	looked   time.Time // when it was looked at last
	done     uint64    // what was wanted when it last held that
	tried    uint64
	failures int // in a row
	outcome  trouble.Outcome
	healed   uint64
}

// findParts finds the parts for what is wanted, unless there are those. Until it has
// found them those before go on, and what stands there stands until others stand
// in its place.
func (k *Keeper) findParts(ctx context.Context, w *watches) {
	k.mu.Lock()
	choice, lost := k.want.NFTables, k.finding.Err()
	switch {
	case k.wanted == 0 || lost != nil && choice == k.sought && time.Now().Before(k.again):
		k.mu.Unlock()
		return
	case k.parts != nil && choice == k.found:
		k.finding.Was(nil)
		k.again, k.failures = time.Time{}, 0
		k.mu.Unlock()
		if lost != nil {
			k.changed()
		}
		return
	case choice != k.sought:
		k.failures = 0
	}
	k.sought = choice
	k.mu.Unlock()
	found, err := k.find(ctx, choice)
	if ctx.Err() != nil {
		return
	}
	defer k.changed()
	if err == nil {
		w.end() // they call for mu
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.finding.Was(err)
	if err != nil {
		k.again = time.Now().Add(backoff.After(k.failures + 1))
		k.failures++
		return
	}
	k.again, k.failures, k.found = time.Time{}, 0, choice
	for _, p := range k.parts {
		k.healed += p.healed
	}
	k.parts = nil
	for _, p := range found {
		k.parts = append(k.parts, &part{Part: p, due: time.Now(), ours: true, outcome: trouble.Outcome{
			Failed: "Failed to write the firewall rules; retrying", Works: "Firewall rules in sync again", EachReason: true,
		}})
	}
	w.begin(ctx, k)
}

// watches are what watches the parts.
type watches struct {
	cancel  context.CancelFunc
	running sync.WaitGroup
}

// begin has all parts of k watched; the caller holds its mu.
func (w *watches) begin(ctx context.Context, k *Keeper) {
	ctx, w.cancel = context.WithCancel(ctx)
	for _, p := range k.parts {
		if p.Watch != nil {
			w.running.Go(func() { k.watch(ctx, p) })
		}
	}
}

// end ends the watches, and waits until they have.
func (w *watches) end() {
	if w.cancel != nil {
		w.cancel()
	}
	w.running.Wait()
}

// watch has p looked at whenever something happens to it.
func (k *Keeper) watch(ctx context.Context, p *part) {
	watching := trouble.Outcome{Failed: "Lost the watch on the firewall; restarting it"}
	for ctx.Err() == nil {
		begun := false
		err := p.Watch(ctx, func() {
			k.mu.Lock()
			defer k.mu.Unlock()
			if begun { // to have begun is not yet to have heard something
				watching.Was(nil)
			}
			begun = true
			now := time.Now()
			if p.heard.IsZero() {
				p.heard = now
			}
			k.schedule(p, now.Add(settle))
		})
		if ctx.Err() != nil {
			return
		}
		watching.Was(err, "rules", p.Name)
		retry.Sleep(ctx, time.Second)
	}
}
