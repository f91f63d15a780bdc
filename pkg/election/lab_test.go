package election

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tulle-net/tulle/pkg/kube"
	"github.com/tulle-net/tulle/pkg/kube/apitest"
	"github.com/tulle-net/tulle/pkg/test/bubbletest"
)

// path is that of the Lease of all tests.
var path = kube.Path(kube.Leases("kube-system"), "tulle")

// lab is an API server and replicas, in a bubble.
type lab struct {
	*testing.T
	f     *apitest.Server
	terms termLog
}

// inLab runs a test in a bubble.
func inLab(t *testing.T, test func(l *lab)) {
	bubbletest.Test(t, func(t *testing.T) {
		l := &lab{T: t, f: apitest.InProcess(t)}
		l.terms.t = t
		test(l)
		l.terms.check()
	})
}

// termLog records all terms, and checks that at most one replica leads at a time.
type termLog struct {
	t  *testing.T
	mu sync.Mutex
	// terms are all terms so far, in the order in which they began.
	terms []*observed
}

// observed is a term as its leader saw it.
type observed struct {
	Term
	replica string
	began   time.Time
	ended   time.Time // zero until lead returned
}

// begin records a term, and fails the test unless all others are over.
func (c *termLog) begin(replica string, t Term) *observed {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	for _, other := range c.terms {
		if other.ended.IsZero() && other.Deadline().After(now) {
			c.t.Errorf("%s leads from %s on; %s leads until %s", replica, now, other.replica, other.Deadline())
		}
	}
	n := &observed{Term: t, replica: replica, began: now}
	c.terms = append(c.terms, n)
	return n
}

func (c *termLog) end(n *observed) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n.ended = time.Now()
}

// all returns all terms so far.
func (c *termLog) all() []observed {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []observed
	for _, n := range c.terms {
		all = append(all, *n)
	}
	return all
}

// check fails the test if two terms overlap, or have one ID.
func (c *termLog) check() {
	all, ids := c.all(), make(map[string]bool)
	for i, n := range all {
		if ids[n.ID] {
			c.t.Errorf("two terms are %s", n.ID)
		}
		ids[n.ID] = true
		if i+1 == len(all) {
			return
		}
		over := n.Deadline()
		if !n.ended.IsZero() && n.ended.Before(over) {
			over = n.ended
		}
		if next := all[i+1]; over.After(next.began) {
			c.t.Errorf("%s leads until %s, %s from %s on", n.replica, over, next.replica, next.began)
		}
	}
}

// replica is one replica of a program.
type replica struct {
	*Elector
	name   string
	lab    *lab
	cancel context.CancelFunc
	done   chan struct{}
	// The terms of an unclean replica end unclean. The leader of a deaf replica notices late
	// that its context ended.
	unclean, deaf bool

	mu  sync.Mutex
	cut func(r *http.Request) bool // reports whether a request never arrives
	// delay, if set, returns what the answer to a request waits for, or nil.
	delay func(r *http.Request) <-chan struct{}
}

// replica starts a replica. change, if set, changes it before the start.
func (l *lab) replica(name string, change func(r *replica)) *replica {
	l.Helper()
	r := &replica{name: name, lab: l, done: make(chan struct{})}
	c, err := kube.NewClient(kube.Options{Server: l.f.URL, Name: name})
	if err != nil {
		l.Fatal(err)
	}
	c.Wrap(func(http.RoundTripper) http.RoundTripper { return r })
	r.Elector, err = New(Options{Client: c, Namespace: "kube-system", Name: "tulle", Identity: name})
	if err != nil {
		l.Fatal(err)
	}
	if change != nil {
		change(r)
	}
	ctx, cancel := context.WithCancel(l.Context())
	r.cancel = cancel
	go func() {
		defer close(r.done)
		r.Run(ctx, r.lead)
	}()
	l.Cleanup(r.stop)
	return r
}

// lead is what a replica does while it leads.
func (r *replica) lead(ctx context.Context, t Term) (clean bool) {
	n := r.lab.terms.begin(r.name, t)
	<-ctx.Done()
	if r.deaf {
		<-time.After(30 * time.Second)
	}
	r.lab.terms.end(n)
	return !r.unclean
}

// RoundTrip implements http.RoundTripper.
func (r *replica) RoundTrip(q *http.Request) (*http.Response, error) {
	r.mu.Lock()
	cut := r.cut
	r.mu.Unlock()
	if cut != nil && cut(q) {
		httptrace.ContextClientTrace(q.Context()).GotConn(httptrace.GotConnInfo{})
		<-q.Context().Done()
		return nil, q.Context().Err()
	}
	answer, err := r.lab.f.Transport().RoundTrip(q)
	if r.delay != nil {
		if until := r.delay(q); until != nil {
			<-until
		}
	}
	return answer, err
}

// cutOff drops all requests and answers from now on.
func (r *replica) cutOff() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cut = func(*http.Request) bool { return true }
	r.lab.f.Cut() // the watches of the others restart
}

// stop stops a replica, and waits for its end.
func (r *replica) stop() {
	r.cancel()
	<-r.done
}

// leads waits until a replica leads, and returns how long that took.
func (l *lab) leads(within time.Duration, who ...*replica) (leader *replica, took time.Duration) {
	l.Helper()
	began := time.Now()
	for time.Since(began) <= within {
		synctest.Wait()
		for _, r := range who {
			if r.Status().Leading {
				return r, time.Since(began)
			}
		}
		l.wait(10 * time.Millisecond)
	}
	l.Fatalf("no replica leads after %s: %v", within, l.f.Object(path))
	return nil, 0
}

// wait lets time pass.
func (l *lab) wait(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// leading counts the replicas that lead.
func leading(all []*replica) (n int) {
	for _, r := range all {
		if r.Status().Leading {
			n++
		}
	}
	return n
}

// spec returns the spec of the Lease.
func (l *lab) spec() map[string]any {
	spec, _ := l.f.Object(path)["spec"].(map[string]any)
	return spec
}

// many starts replicas.
func (l *lab) many(n int) (all []*replica) {
	l.Helper()
	for i := range n {
		all = append(all, l.replica(fmt.Sprintf("host-%d", i), nil))
	}
	return all
}

// without returns the replicas except one.
func without(all []*replica, one *replica) (others []*replica) {
	for _, r := range all {
		if r != one {
			others = append(others, r)
		}
	}
	return others
}
