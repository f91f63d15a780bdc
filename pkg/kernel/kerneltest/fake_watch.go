package kerneltest

import (
	"context"

	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/pkg/retry"
)

// watcher is one running Watch.
type watcher struct {
	queue []netstate.Event
	more  retry.Wakeup // queue is not empty
	fail  chan error   // holds one
}

// Watch sends an event of lost events first. Then it reports each change some time
// after it was made, until ctx ends or a test makes it fail.
func (f *Fake) Watch(ctx context.Context, to func(netstate.Event)) error {
	w, err := f.subscribe()
	if err != nil {
		return err
	}
	defer f.unsubscribe(w)
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-w.fail:
			return err
		case <-w.more:
		}
		for _, e := range f.take(w) {
			to(e)
		}
	}
}

func (f *Fake) subscribe() (*watcher, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts.Watches++
	if err := f.faults.watches.next(); err != nil {
		return nil, err
	}
	w := &watcher{more: retry.NewWakeup(), fail: make(chan error, 1)}
	f.watchers[w] = struct{}{}
	w.add(netstate.Event{})
	return w, nil
}

func (f *Fake) unsubscribe(w *watcher) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.watchers, w)
}

// take empties a watcher's queue, unless events are held.
func (f *Fake) take(w *watcher) []netstate.Event {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.faults.held != nil {
		return nil
	}
	events := w.queue
	w.queue = nil
	return events
}

func (w *watcher) add(e netstate.Event) {
	w.queue = append(w.queue, e)
	w.more.Wake()
}

func (f *Fake) signalAll() {
	for w := range f.watchers {
		w.more.Wake()
	}
}

// emit reports a change. Like the real kernel's watch, it reports only links and
// forwarding entries of what Apply does.
func (f *Fake) emit(e netstate.Event, by maker) {
	if k := e.Object.Key().Kind; by == ours && k != netstate.KindLink && k != netstate.KindFDB {
		return
	}
	switch {
	case f.faults.lose > 0:
		f.faults.lose--
		return
	case f.faults.overrun > 0:
		if f.faults.overrun--; f.faults.overrun > 0 {
			return
		}
		e = netstate.Event{}
	}
	for w := range f.watchers {
		w.add(e)
	}
}
