package firewall

import (
	"context"
	"sync"
	"time"

	"github.com/tulle-net/tulle/pkg/retry"
	"github.com/tulle-net/tulle/pkg/trouble"
)

// Part is one place for rules.
type Part struct {
	Name   string // for people
	Engine Engine
	// Wants returns which of the rules belong there. If it is nil, none do; what an
	// earlier run left is removed once all other parts hold what is wanted.
	Wants func(Rules) Rules
	// Watch calls poke when it begins, and after each change. It is nil if no changes are
	// announced.
	Watch func(ctx context.Context, poke func()) error
	// Tell returns which foreign rules do harm that ours cannot prevent. It is nil if
	// there are none.
	Tell func() []string
	// Dropped returns how many packets the rules of Rules.Confines have dropped since they
	// were written. It is nil if the part has none.
	Dropped func(ctx context.Context) (packets uint64, err error)
	// Every is how often the keeper polls it, beside what Watch reports; never if
	// zero.
	Every time.Duration
}

// part is a Part with its state, which the keeper's mu guards.
type part struct {
	Part
	due      time.Time // when to look next, if the account allows it; zero means never
	ours     bool      // a change of what is wanted, whatever it costs
	heard    time.Time // when the first change was reported; zero without one
	looked   time.Time // when it was last checked
	done     uint64    // the version of what was wanted that it last held
	tried    uint64
	failures int // in a row
	outcome  trouble.Outcome
	healed   uint64
}

// findParts finds the parts for what is wanted, unless they are known. Until then the
// present parts stay in use, and rules stay in place until others have replaced them.
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
		w.end() // they need mu
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.finding.Was(err)
	k.turn()
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

// watches are the watches of the parts.
type watches struct {
	cancel  context.CancelFunc
	running sync.WaitGroup
}

// begin starts the watches of all parts of k. The caller holds its mu.
func (w *watches) begin(ctx context.Context, k *Keeper) {
	ctx, w.cancel = context.WithCancel(ctx)
	for _, p := range k.parts {
		if p.Watch != nil {
			w.running.Go(func() { k.watch(ctx, p) })
		}
	}
}

// end ends the watches, and waits for their end.
func (w *watches) end() {
	if w.cancel != nil {
		w.cancel()
	}
	w.running.Wait()
}

// watch marks p to be checked after each change.
func (k *Keeper) watch(ctx context.Context, p *part) {
	watching := trouble.Outcome{Failed: "Lost the watch on the firewall; restarting it"}
	for ctx.Err() == nil {
		begun := false
		err := p.Watch(ctx, func() {
			k.mu.Lock()
			defer k.mu.Unlock()
			if begun { // the beginning is not a change
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
