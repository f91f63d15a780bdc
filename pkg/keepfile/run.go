package keepfile

import (
	"context"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"k8s.io/klog/v2"

	"github.com/tulle-net/tulle/pkg/budget"
	"github.com/tulle-net/tulle/pkg/retry"
)

const (
	// interval is how often a file is read without an event: there may be no
	// watch, or something mounted over it.
	interval = time.Minute
	// settle is how long to wait after a change, until a program that removes a
	// whole folder, or writes in several steps, is done.
	settle = 20 * time.Millisecond
)

// backoff is the wait before a file is tried again. A mount that becomes writable
// again sends no event.
var backoff = retry.Backoff{First: 100 * time.Millisecond, Last: 10 * time.Second}

// watcher reports changes in folders.
type watcher interface {
	// watch watches these folders and no others, and reports whether all of them
	// were watched before.
	watch(folders []string) (before bool)
}

// run does Run with a watcher, or without if it is nil.
func (k *Keeper) run(ctx context.Context, w watcher) {
	k.mu.Lock()
	for _, f := range k.files {
		f.hasten(time.Now()) // nothing watched until now
	}
	k.mu.Unlock()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-k.wake:
		case <-timer.C:
		}
		for f := k.next(); f != nil && ctx.Err() == nil; f = k.next() {
			k.look.Lock()
			k.inspect(f, w)
			k.look.Unlock()
		}
		k.sweep()
		timer.Reset(k.pause())
	}
}

// next returns a file that is due.
func (k *Keeper) next() *file {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	for _, f := range k.files {
		if !f.due.After(now) {
			return f
		}
	}
	return nil
}

func (k *Keeper) pause() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	pause := interval
	for _, f := range k.files {
		pause = min(pause, f.due.Sub(now))
	}
	if due, ok := k.fights.Due(); ok {
		pause = min(pause, due.Sub(now))
	}
	return max(0, pause)
}

// changed notes that something happened to name in folder, or to the folder
// itself if name is "". All of it means everywhere.
func (k *Keeper) changed(folder, name string, everywhere bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	at := now.Add(settle)
	for _, f := range k.files {
		touched := everywhere || slices.ContainsFunc(f.hops, func(hop string) bool {
			return filepath.Dir(hop) == folder && (name == "" || filepath.Base(hop) == name)
		})
		if touched {
			if f.heard.IsZero() {
				f.heard = now
			}
			f.hasten(at)
		}
	}
	k.wake.Wake()
}

// inspect looks at a file with the watch on; the caller holds look.
func (k *Keeper) inspect(f *file, w watcher) {
	if w == nil {
		k.keep(f, false)
		return
	}
	// A folder that was not watched before the look may have changed during it.
	// One that comes and goes all the time waits for the next look.
	w.watch(k.folders())
	for range 3 {
		if err := k.keep(f, false); err != nil || w.watch(k.folders()) {
			return
		}
	}
}

// folders returns all folders in which a change of a file shows.
func (k *Keeper) folders() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	set := make(map[string]bool)
	for _, f := range k.files {
		for _, hop := range f.hops {
			set[filepath.Dir(hop)] = true
		}
	}
	return slices.Sorted(maps.Keys(set))
}

// keep reads a file, and writes it if it is not as it was set; the caller
// holds look. What is set only now (fresh) is no matter of others. The error is
// that of writing it.
func (k *Keeper) keep(f *file, fresh bool) error {
	// Whatever changes from now on calls for another look.
	k.mu.Lock()
	f.due = time.Now().Add(interval)
	k.mu.Unlock()
	hops, err := follow(f.path)
	right := err == nil && f.thing.IsRight(hops[len(hops)-1])
	k.mu.Lock()
	now := time.Now()
	f.hops = hops
	if right {
		f.settled()
		k.mu.Unlock()
		return nil
	}
	if !fresh && f.failures == 0 {
		if turn := k.account.When(now, budget.Single, f.restored); turn.After(now) {
			f.due, f.notBefore = turn, turn
			k.mu.Unlock()
			return nil
		}
	}
	k.mu.Unlock()

	stop := k.account.Measure()
	err = f.thing.Write(f.path)
	cost := stop()
	k.mu.Lock()
	defer k.mu.Unlock()
	found := now
	now = time.Now()
	if !fresh {
		k.account.Heal(now, cost)
	}
	if err != nil {
		f.failed(err, now)
		return err
	}
	if !fresh && f.failures == 0 {
		k.healed(f, found, now)
	}
	f.settled()
	return nil
}

// healed books that a file was written because others had changed it, which was
// found out at a time. The log has it until it is known that they keep doing so.
// The caller holds mu.
func (k *Keeper) healed(f *file, found, now time.Time) {
	f.restored = now
	if !f.heard.IsZero() && f.heard.Before(found) {
		found = f.heard
	}
	switch begins := k.fights.Heal(f.path, found, now); {
	case begins:
		fight, _ := k.fights.Of(f.path, now)
		klog.InfoS("Another program keeps changing a file; restoring it each time", "path", f.path, "rate", budget.Rate(fight.Rate))
	case !k.fights.Fought(f.path):
		klog.InfoS("Restored a file that others had changed", "path", f.path)
	}
}

// sweep logs the fights that are over.
func (k *Keeper) sweep() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for path, f := range k.fights.Sweep(time.Now()) {
		klog.InfoS("Other programs no longer change the file", "path", path, "restored", f.Healed, "since", f.Since.UTC().Format(time.RFC3339))
	}
}

// hasten makes the file due by the time at, unless it is to wait.
func (f *file) hasten(at time.Time) {
	if at.Before(f.notBefore) {
		at = f.notBefore
	}
	if at.Before(f.due) {
		f.due = at
	}
}

// settled books that the file is as it was set.
func (f *file) settled() {
	f.outcome.Was(nil, "path", f.path, "failures", f.failures)
	f.failures, f.heard = 0, time.Time{}
}

// failed books that the file could not be written.
func (f *file) failed(err error, now time.Time) {
	f.outcome.Was(err, "path", f.path)
	f.failures++
	// A change calls for another try before its time, but not for one upon the
	// other.
	wait := backoff.After(f.failures)
	f.notBefore = now.Add(min(wait, budget.Turn))
	f.hasten(now.Add(wait))
	if f.due.Before(f.notBefore) {
		f.due = f.notBefore
	}
}
