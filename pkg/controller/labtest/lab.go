// Package labtest runs controllers against an API server in the test's process, on the
// clock of testing/synctest.
//
//	labtest.Run(t, func(l *labtest.Lab) {
//		l.Start(controller.Options{}, func(e *controller.Engine) { c = New(e, Options{Client: l.Client}) })
//		l.Begin()
//		l.Pass(time.Minute)
//	})
package labtest

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tulle-net/tulle/pkg/controller"
	"github.com/tulle-net/tulle/pkg/election"
	"github.com/tulle-net/tulle/pkg/kube"
	"github.com/tulle-net/tulle/pkg/kube/apitest"
	"github.com/tulle-net/tulle/pkg/test/bubbletest"
)

// patience limits how long End waits for the writes in flight.
const patience = time.Minute

// Lab is an API server and the replicas of a program, in a bubble of testing/synctest.
type Lab struct {
	*testing.T
	API    *apitest.Server
	Client *kube.Client
	// Settle is how long Begin waits after a term has begun.
	Settle time.Duration
	// Clean is set if the terms that begin follow clean ones.
	Clean bool
	// Replica is the replica of the last Start.
	*Replica

	mu     sync.Mutex
	events []controller.Event
}

// Replica is one process of the program.
type Replica struct {
	Engine *controller.Engine
	kill   func()
	resign context.CancelFunc
	ended  chan bool // what Lead returned; nil while no term has begun
}

// Run runs test with a Lab, whose API server assigns no podCIDRs to Nodes. It ends the last
// term after the test.
func Run(t *testing.T, test func(l *Lab)) {
	t.Helper()
	bubbletest.Test(t, func(t *testing.T) {
		l := &Lab{T: t, API: apitest.InProcess(t), Settle: time.Second}
		l.API.Gives = nil
		var err error
		if l.Client, err = kube.NewClient(kube.Options{Server: l.API.URL, Name: "test"}); err != nil {
			t.Fatal(err)
		}
		l.Client.Wrap(func(http.RoundTripper) http.RoundTripper { return l.API.Transport() })
		test(l)
		l.End()
	})
}

// Start starts a replica. add adds controllers to its engine. The default mode is WriteMode.
func (l *Lab) Start(o controller.Options, add func(e *controller.Engine)) {
	if o.Mode == "" {
		o.Mode = controller.WriteMode
	}
	o.WriteTimeout, o.Send = 5*time.Second, l.record
	r := &Replica{Engine: controller.New(o), resign: func() {}}
	add(r.Engine)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.Engine.Run(ctx)
	}()
	r.kill = sync.OnceFunc(func() {
		cancel()
		<-ended
	})
	l.Cleanup(r.kill)
	l.Replica = r
}

// Kill ends a replica at once, without waiting for its writes.
func (r *Replica) Kill() {
	r.resign()
	r.kill()
}

// Begin begins a term of the last replica, and lets Settle pass.
func (l *Lab) Begin() {
	r := l.Replica
	ctx, cancel := context.WithCancel(context.Background())
	r.resign, r.ended = cancel, make(chan bool, 1)
	go func() { r.ended <- r.Engine.Lead(ctx, election.Term{Clean: l.Clean}) }()
	l.Pass(l.Settle)
}

// End ends the term, if one has begun, and waits for the writes in flight.
func (l *Lab) End() {
	if l.Replica == nil || l.ended == nil {
		return
	}
	l.resign()
	synctest.Wait()
	select {
	case <-l.ended:
		l.ended = nil
	case <-time.After(patience):
		l.Errorf("the term has not ended after %s", patience)
	}
}

// Pass lets time pass, and then waits until all goroutines are blocked.
func (l *Lab) Pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// RefuseWatches ends the watches of a resource. The server refuses new ones, and lists, until
// AllowWatches.
func (l *Lab) RefuseWatches(resource string) {
	l.API.Do(func() {
		l.API.Refuse = func(r *http.Request) *metav1.Status {
			if r.Method != http.MethodGet || r.URL.Path != "/"+resource {
				return nil
			}
			return apitest.Refusal(http.StatusServiceUnavailable, "refused by the test")
		}
		l.API.End()
	})
}

// AllowWatches allows all requests again.
func (l *Lab) AllowWatches() { l.API.Do(func() { l.API.Refuse = nil }) }

// Do calls f in the loop.
func (l *Lab) Do(f func()) {
	l.Helper()
	if !l.Engine.Do(l.Context(), f) {
		l.Fatal("the loop does not answer")
	}
}
