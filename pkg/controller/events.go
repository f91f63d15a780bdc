package controller

import (
	"context"
	"time"

	"github.com/tulle-net/tulle/pkg/trouble"
)

const (
	// eventInterval is the shortest time between two equal events of an object.
	eventInterval = 5 * time.Minute
	// mostEvents limits the events in an eventInterval, and the memory for them.
	mostEvents = 4096
	// eventLimit is the timeout of sending an event.
	eventLimit = 5 * time.Second
)

// Event is a message for people about an object. Kubernetes shows it with the object.
type Event struct {
	Object Ref
	// Warning marks an event that a person must act on.
	Warning bool
	// Reason is the cause, one word in CamelCase. An object gets at most one event with a
	// reason in five minutes.
	Reason, Message string
}

// events limits and sends events. Only the loop uses its fields, except for the queue.
type events struct {
	sent  map[sentEvent]struct{}
	order []sentTime // of sent, the oldest first
	queue chan Event

	counts  EventCounts
	outcome trouble.Outcome
}

type sentEvent struct{ kind, namespace, name, uid, reason string }

type sentTime struct {
	event sentEvent
	at    time.Time
}

// EventCounts counts events since the start.
type EventCounts struct {
	Sent int
	// Failed counts events that the server refused or did not answer.
	Failed int
	// Suppressed counts events beyond the limits.
	Suppressed int
}

func newEvents() events {
	return events{
		sent: make(map[sentEvent]struct{}), queue: make(chan Event, mostEvents),
		outcome: trouble.Outcome{Failed: "Failed to create an event", Works: "Creating events works again"},
	}
}

// Event queues an event for sending. It drops the event if this process does not write, or
// has sent the same event within five minutes. Call it in the loop.
func (e *Engine) Event(ev Event) {
	if e.options.Send == nil || e.options.Mode != WriteMode || e.term == nil {
		return
	}
	e.events.add(ev, time.Now())
}

// add queues an event.
func (s *events) add(ev Event, now time.Time) {
	for len(s.order) > 0 && now.Sub(s.order[0].at) >= eventInterval {
		delete(s.sent, s.order[0].event)
		s.order = s.order[1:]
	}
	if len(s.order) == 0 {
		s.order = nil // frees the array that was appended to
	}
	key := sentEvent{ev.Object.Kind, ev.Object.Namespace, ev.Object.Name, ev.Object.UID, ev.Reason}
	if _, again := s.sent[key]; again {
		return
	}
	if len(s.order) >= mostEvents {
		s.counts.Suppressed++
		return
	}
	select {
	case s.queue <- ev:
		s.sent[key] = struct{}{}
		s.order = append(s.order, sentTime{key, now})
	default:
		s.counts.Suppressed++
	}
}

// run sends queued events, one at a time, until ctx ends.
func (s *events) run(ctx context.Context, e *Engine) {
	for {
		select {
		case <-ctx.Done():
			return
		case ev := <-s.queue:
			within, cancel := context.WithTimeout(ctx, eventLimit)
			err := e.options.Send(within, ev)
			cancel()
			if ctx.Err() != nil {
				return
			}
			e.Do(ctx, func() { s.took(ev, err) })
		}
	}
}

// took records an event's outcome.
func (s *events) took(ev Event, err error) {
	s.outcome.Was(explain(err), "object", ev.Object.String(), "reason", ev.Reason)
	if err != nil {
		s.counts.Failed++
		return
	}
	s.counts.Sent++
}
