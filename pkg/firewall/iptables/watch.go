package iptables

import (
	"context"
	"fmt"
	"hash/maphash"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tulle-net/tulle/subnet"
)

const (
	// idle is how often legacy tables are looked at, of whose changes the kernel
	// tells nobody, and glance the same where nothing tells of the commands that
	// change them. Each time it is to wake up that costs, not to look.
	idle   = time.Second
	glance = 100 * time.Millisecond
	// share is the part of the time, as 1 in so much, that to read what is in a
	// table may take, and toldShare the same where commands may have changed it.
	share, toldShare = 10000, 20
)

// Watch calls poke when it begins, and whenever what is in a legacy table that is
// in use has changed: as soon as the command that did it lets go of iptables' lock.
// Of those who do without the lock, it hears within a second if there are more
// rules then, or fewer; if others took their place it finds that by reading the
// table, the less often the longer that takes, but at least once in the time that
// the options give.
func (l *LegacyTables) Watch(ctx context.Context, poke func()) error {
	poke()
	w := newWatcher(l.options)
	defer w.close()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
		case <-w.lock.free:
			w.told()
		}
		heard := w.lock.watch()
		changed, err := w.look()
		if err != nil {
			return err
		}
		pause := idle
		if len(w.known) > 0 && !heard {
			pause = glance
		}
		if again := w.due(); again > 0 && again < pause {
			pause = again
		}
		timer.Reset(pause)
		if changed {
			poke()
		}
	}
}

// watcher knows what legacy tables were like.
type watcher struct {
	options Options
	lock    *lock
	lists   subnet.Pair[*list]
	sockets subnet.Pair[int] // 0 as long as there is nothing to ask
	known   []*watched
	buffer  []byte
	seed    maphash.Seed
}

func newWatcher(o Options) *watcher {
	path := o.Lock
	if path == "" {
		path = "/run/xtables.lock"
	}
	w := &watcher{options: o, lock: newLock(path), seed: maphash.MakeSeed()}
	for _, f := range subnet.Families {
		w.lists[f] = &list{path: o.list(f)}
	}
	return w
}

// watched is a table, and what is known of it.
type watched struct {
	family subnet.Family
	name   string
	info   info
	sum    uint64        // of its rules
	known  bool          // sum is of the table as it is
	read   time.Time     // when it was read last
	took   time.Duration // to read it
	due    time.Time     // when to read it next
	told   bool          // that is soon because of a command
}

func (w *watcher) close() {
	w.lock.close()
	for _, f := range subnet.Families {
		w.lists[f].close()
		if w.sockets[f] > 0 {
			unix.Close(w.sockets[f])
		}
	}
}

// told takes note that a command may have changed any table.
func (w *watcher) told() {
	for _, t := range w.known {
		t.soon()
	}
}

// due is when the next of the tables is to be read that commands may have changed.
func (w *watcher) due() (wait time.Duration) {
	for _, t := range w.known {
		if t.told {
			if d := max(time.Until(t.due), 1); wait == 0 || d < wait {
				wait = d
			}
		}
	}
	return wait
}

// look looks at all tables that are in use and may hold rules of ours, and says
// whether any is another than before.
func (w *watcher) look() (changed bool, err error) {
	others := false
	for _, f := range subnet.Families {
		another, err := w.lists[f].read()
		if err != nil {
			return false, err
		}
		others = others || another
	}
	if others {
		w.known, changed = w.tables(), true
	}
	for _, t := range w.known {
		if w.sockets[t.family] == 0 {
			if w.sockets[t.family], err = socket(t.family); err != nil {
				return false, err
			}
		}
		another, err := w.compare(t)
		if err != nil {
			return false, fmt.Errorf("look at the %s table %s of legacy iptables: %w", t.family, t.name, err)
		}
		changed = changed || another
	}
	return changed, nil
}

// tables are those to look at.
func (w *watcher) tables() (all []*watched) {
	for _, f := range subnet.Families {
		for _, p := range parts {
			if slices.Contains(w.lists[f].names, p.table) {
				all = append(all, &watched{family: f, name: p.table})
			}
		}
	}
	return all
}

// compare says whether a table is another than is known, and learns it.
func (w *watcher) compare(t *watched) (changed bool, err error) {
	i, err := infoOf(w.sockets[t.family], t.family, t.name)
	if err != nil {
		return false, err
	}
	if changed = i != t.info; changed {
		t.info, t.known = i, false
		t.soon()
	}
	if time.Now().Before(t.due) {
		return changed, nil
	}
	sum, took, err := w.timed(t, i.size)
	if err == unix.EAGAIN { // it has just become another, as the next look finds
		return changed, nil
	}
	if err != nil {
		return false, err
	}
	now := time.Now()
	changed = changed || !t.known || t.sum != sum
	t.sum, t.known, t.told, t.read, t.took = sum, true, false, now, took
	t.due = now.Add(min(share*took, w.options.Resync))
	return changed, nil
}

// soon has a table be read as soon as that may be.
func (t *watched) soon() {
	if soon := t.read.Add(toldShare * t.took); soon.Before(t.due) {
		t.due, t.told = soon, true
	}
}

// timed is sum, and how long it kept a processor busy: to have waited for one is no
// reason to look less often.
func (w *watcher) timed(t *watched, size uint32) (sum uint64, took time.Duration, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, err := used()
	if err == nil {
		sum, err = w.sum(t, size)
	}
	if err != nil {
		return 0, 0, err
	}
	after, err := used()
	return sum, after - before, err
}
