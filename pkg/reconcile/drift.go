package reconcile

import (
	"time"

	"github.com/tulle-net/tulle/pkg/budget"
	"github.com/tulle-net/tulle/pkg/netstate"
)

// drift is what other programs changed and was not restored yet, by class. All keys
// of a class have their turn together: in one batch each costs almost nothing, and
// none waits for another.
type drift struct {
	keys  [budget.Classes]map[netstate.Key]task
	burst burst
}

func newDrift() (d drift) {
	for c := range d.keys {
		d.keys[c] = make(map[netstate.Key]task)
	}
	return d
}

// classOf returns what depends on a key.
func classOf(k netstate.Key) budget.Class {
	switch k.Kind {
	case netstate.KindLink:
		return budget.Link
	case netstate.KindAddr:
		return budget.Addr
	case netstate.KindSysctl:
		return budget.Shared
	default:
		return budget.Single
	}
}

func (d *drift) len() (n int) {
	for _, keys := range d.keys {
		n += len(keys)
	}
	return n
}

func (d *drift) get(k netstate.Key) (t task, ok bool) {
	t, ok = d.keys[classOf(k)][k]
	return t, ok
}

// add marks a key.
func (d *drift) add(k netstate.Key, t task, now time.Time) {
	if t.wrong == 0 {
		t.wrong = now.UnixNano()
	}
	keys := d.keys[classOf(k)]
	if was, ok := keys[k]; ok {
		t = t.after(was)
	} else {
		d.burst.keys++
	}
	keys[k] = t
	d.burst.add(now)
}

// calm drops a key that is right after all, or that another repair covers.
func (d *drift) calm(k netstate.Key) {
	delete(d.keys[classOf(k)], k)
	d.endIfEmpty()
}

// drop calms the keys that match.
func (d *drift) drop(match func(netstate.Key) bool) {
	for _, keys := range d.keys {
		for k := range keys {
			if match(k) {
				delete(keys, k)
			}
		}
	}
	d.endIfEmpty()
}

// endIfEmpty ends the burst when none of its keys is left.
func (d *drift) endIfEmpty() {
	if d.len() == 0 {
		d.burst = burst{}
	}
}

// take moves to tasks the keys of the classes whose turn it is, and those that
// are among the tasks already.
func (d *drift) take(tasks map[netstate.Key]task, turn func(budget.Class) bool) {
	for c, keys := range d.keys {
		switch {
		case len(keys) == 0:
		case turn(budget.Class(c)):
			for k, t := range keys {
				merge(tasks, k, t)
			}
			d.keys[c] = make(map[netstate.Key]task)
		default:
			for k := range tasks {
				if t, ok := keys[k]; ok {
					merge(tasks, k, t)
					delete(keys, k)
				}
			}
		}
	}
	d.endIfEmpty()
}

// next returns when the first class has its turn, if there is something to do.
func (d *drift) next(turn func(budget.Class) time.Time) (at time.Time, ok bool) {
	for c, keys := range d.keys {
		if len(keys) == 0 {
			continue
		}
		if t := later(d.burst.over(), turn(budget.Class(c))); !ok || t.Before(at) {
			at, ok = t, true
		}
	}
	return at, ok
}
