package controller

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tulle-net/tulle/pkg/election"
)

func about(name, reason string) Event {
	return Event{Object: Ref{Kind: "Thing", Name: name, UID: "uid-" + name}, Reason: reason}
}

func TestOneEventOfAnObjectAndCauseInFiveMinutes(t *testing.T) {
	sent := make(map[string]int)
	o := Options{Send: func(_ context.Context, e Event) error { sent[e.Object.Name+" "+e.Reason]++; return nil }}
	run(t, o, func(l *lab) {
		l.post(func() { l.Event(about("early", "Standby")) })
		l.begin(election.Term{})
		for range 100 {
			l.post(func() {
				l.Event(about("a", "Full"))
				l.Event(about("a", "Other"))
				l.Event(about("b", "Full"))
			})
			<-time.After(6 * time.Second) // ten minutes in all
		}
		synctest.Wait()
		for what, want := range map[string]int{"a Full": 2, "a Other": 2, "b Full": 2, "early Standby": 0} {
			if sent[what] != want {
				t.Errorf("%s: %d events, want %d", what, sent[what], want)
			}
		}
		if s := l.look(); s.Events.Sent != 6 || s.Events.Suppressed != 0 {
			t.Errorf("%+v", s.Events)
		}
	})
}

func TestEventsAreBounded(t *testing.T) {
	sent := 0
	o := Options{Send: func(context.Context, Event) error { sent++; return errors.New("no") }}
	run(t, o, func(l *lab) {
		l.begin(election.Term{})
		for i := range 3 * mostEvents {
			l.post(func() { l.Event(about(fmt.Sprint(i), "Full")) })
		}
		synctest.Wait()
		if s := l.look(); sent > mostEvents || len(l.events.sent) > mostEvents || s.Events.Suppressed != 2*mostEvents || s.Events.Failed != sent {
			t.Errorf("sent %d, remembers %d, %+v", sent, len(l.events.sent), s.Events)
		}
		l.pass(eventInterval)
		l.post(func() { l.Event(about("late", "Full")) })
		synctest.Wait()
		if len(l.events.sent) != 1 || len(l.events.order) != 1 {
			t.Errorf("remembers %d", len(l.events.sent))
		}
	})
}

func TestObserveSendsNoEvent(t *testing.T) {
	o := Options{Mode: ObserveMode, Send: func(context.Context, Event) error { t.Error("an event"); return nil }}
	run(t, o, func(l *lab) {
		l.Follow()
		l.post(func() { l.Event(about("a", "Full")) })
		synctest.Wait()
	})
}
