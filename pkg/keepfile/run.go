package keepfile

import (
	"context"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"k8s.io/klog/v2"
)

const (
	// interval is how often a file is looked at that nothing is heard of: there
	// may be no watch, or something mounted over it.
	interval = time.Minute
	// settle is how long to wait after a change, so that one who removes a whole
	// folder, or writes in several steps, is done.
	settle = 50 * time.Millisecond
)

// watcher tells of changes in folders.
type watcher interface {
	// watch watches these folders and no others, and says whether all of them
	// were watched before.
	watch(folders []string) (before bool)
}

// run is Run with a watcher, or without if it is nil.
func (k *Keeper) run(ctx context.Context, w watcher) {
	k.mu.Lock()
	for _, f := range k.files {
		f.hasten(time.Now()) // nobody watched until now
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
		timer.Reset(k.pause())
	}
}

// next is a file that it is time to look at.
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
	return max(0, pause)
}

// changed takes in that something happened to name in folder, or to the folder
// itself if name is "". All of it means everywhere.
func (k *Keeper) changed(folder, name string, everywhere bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	at := time.Now().Add(settle)
	for _, f := range k.files {
		touched := everywhere || slices.ContainsFunc(f.hops, func(hop string) bool {
			return filepath.Dir(hop) == folder && (name == "" || filepath.Base(hop) == name)
		})
		if touched {
			f.hasten(at)
		}
	}
	k.kick()
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

// folders are all that a change of a file can be seen in.
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

// keep looks at a file, and writes it if it is not as it was set; the caller
// holds look. What is set only now (fresh) is no matter of others. The error is
// that of writing it.
func (k *Keeper) keep(f *file, fresh bool) error {
	// Whatever changes from now on calls for another look.
	k.mu.Lock()
	f.due = time.Now().Add(interval)
	k.mu.Unlock()
	hops, err := follow(f.path)
	right := err == nil && isAsSet(hops[len(hops)-1], f.content, f.mode)
	k.mu.Lock()
	now := time.Now()
	f.hops = hops
	if right {
		f.settled(now)
		k.mu.Unlock()
		return nil
	}
	if !fresh && f.failures == 0 {
		wait, over := f.budget.spend(now)
		if over {
			f.contest()
		}
		if wait > 0 {
			f.due, f.notBefore = now.Add(wait), now.Add(wait)
			k.mu.Unlock()
			return nil
		}
	}
	k.mu.Unlock()

	err = WriteAtomic(f.path, f.content, f.mode)
	k.mu.Lock()
	defer k.mu.Unlock()
	now = time.Now()
	if err != nil {
		f.failed(err, now)
		return err
	}
	if !fresh && f.err == nil {
		klog.InfoS("Wrote a file again that others had changed", "path", f.path)
	}
	f.settled(now)
	return nil
}

// hasten has the file looked at by the time at, unless it is to wait.
func (f *file) hasten(at time.Time) {
	if at.Before(f.notBefore) {
		at = f.notBefore
	}
	if at.Before(f.due) {
		f.due = at
	}
}

// settled books that the file is as it was set.
func (f *file) settled(now time.Time) {
	if f.failures > 0 {
		klog.InfoS("The file is as it should be again", "path", f.path, "failures", f.failures)
		f.failures = 0
	}
	if f.contested && f.budget.calm(now) {
		klog.InfoS("Nobody changes the file any more", "path", f.path)
		f.contested = false
	}
	f.err = nil
	if f.contested {
		f.err = ErrContested
	}
}

// failed books that the file could not be written.
func (f *file) failed(err error, now time.Time) {
	if f.failures == 0 {
		klog.ErrorS(err, "Cannot write a file; trying again", "path", f.path)
	}
	f.failures++
	f.err = err
	// A change calls for another try before its time, but not for one upon the
	// other.
	wait := backoff(f.failures)
	f.notBefore = now.Add(min(wait, writeEvery))
	f.hasten(now.Add(wait))
	if f.due.Before(f.notBefore) {
		f.due = f.notBefore
	}
}

// contest books that the file was written too often.
func (f *file) contest() {
	if !f.contested {
		klog.InfoS("Another program keeps changing a file; writing it once a second at most", "path", f.path)
	}
	f.contested, f.err = true, ErrContested
}
