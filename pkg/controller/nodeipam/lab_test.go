package nodeipam

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/controller"
	"github.com/tulle-net/tulle/pkg/election"
	"github.com/tulle-net/tulle/pkg/ipam"
	"github.com/tulle-net/tulle/pkg/kube"
	"github.com/tulle-net/tulle/pkg/test/bubbletest"
)

// lab is a Controller alone: a test is its Engine, its API server and its clock.
type lab struct {
	*Controller
	t      *testing.T
	events []controller.Event
}

// run runs test with a Controller that leads, in a bubble of synctest.
func run(t *testing.T, cidr string, test func(l *lab)) {
	t.Helper()
	bubbletest.Test(t, func(t *testing.T) {
		l := newLab(t, cidr)
		l.Lead(election.Term{Number: 1, Clean: true})
		test(l)
	})
}

// newLab returns a Controller that gives /24s of a range.
func newLab(t *testing.T, cidr string) *lab {
	t.Helper()
	l := &lab{t: t}
	c, err := New(controller.New(controller.Options{}), Options{
		Pools: []ipam.Pool{poolOf("cluster-cidr", cidr)},
		Event: func(e controller.Event) { l.events = append(l.events, e) },
	})
	if err != nil {
		t.Fatal(err)
	}
	l.Controller = c
	return l
}

// stateOf returns a state of a Node.
func stateOf(name, uid string, version int64, cidrs ...string) node {
	return node{
		Node:    ipam.Node{Name: name, UID: uid, CIDRs: cidrs, Created: 1},
		version: fmt.Sprint(version), revision: version,
	}
}

// shows passes a state of a Node to the controller, as the watch does.
func (l *lab) shows(name, uid string, version int64, cidrs ...string) {
	l.set(name, stateOf(name, uid, version, cidrs...))
}

// plan returns the writes that are due, and when to plan again.
func (l *lab) plan() ([]controller.Write, time.Duration) {
	writes, again := l.Plan(time.Now(), 32)
	if again.IsZero() {
		return writes, 0
	}
	return writes, time.Until(again)
}

// one returns the only write that is due.
func (l *lab) one() controller.Write {
	l.t.Helper()
	writes, _ := l.plan()
	if len(writes) != 1 {
		l.t.Fatalf("%d writes: %v", len(writes), summaries(writes))
	}
	return writes[0]
}

// none fails if a write is due.
func (l *lab) none() {
	l.t.Helper()
	if writes, _ := l.plan(); len(writes) > 0 {
		l.t.Fatalf("it writes %v", summaries(writes))
	}
}

func summaries(writes []controller.Write) (all []string) {
	for _, w := range writes {
		all = append(all, w.Object.Name+": "+w.Summary)
	}
	slices.Sort(all)
	return all
}

// requires returns the version that a write requires of its Node.
func (l *lab) requires(w controller.Write) string { return l.attempts[w.Object.Name].version }

// done ends a write, whose answer shows a version.
func (l *lab) done(w controller.Write, version int64) {
	l.attempts[w.Object.Name].answer.ResourceVersion = fmt.Sprint(version)
	l.Done(w, nil)
}

// refuse ends a write with a refusal.
func (l *lab) refuse(w controller.Write, code int) {
	l.Done(w, &kube.Error{Code: code, Message: "refused by the test"})
}

// pass lets time pass.
func (l *lab) pass(d time.Duration) { <-time.After(d) }

// errLost ends a write without an answer.
var errLost = errors.New("connection reset by the server")

// sent counts the events about a Node. Each must have all parts.
func (l *lab) sent(name, reason string, parts ...string) (n int) {
	l.t.Helper()
	for _, e := range l.events {
		if e.Object.Name != name || e.Reason != reason {
			continue
		}
		n++
		for _, part := range parts {
			if !strings.Contains(e.Message, part) {
				l.t.Errorf("the event lacks %q: %s", part, e.Message)
			}
		}
	}
	return n
}

// conflict is the refusal of a write to a Node that has changed.
const conflict = http.StatusConflict
