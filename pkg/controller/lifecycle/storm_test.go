package lifecycle

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/cloud/cloudtest"
	"github.com/tulle-net/tulle/pkg/controller"
	"github.com/tulle-net/tulle/pkg/controller/labtest"
	"github.com/tulle-net/tulle/pkg/kube/apitest"
)

// storm is a cluster with two processes, and random faults of the cloud, the API server, the
// machines and the processes.
type storm struct {
	*lab
	rnd     *rand.Rand
	all     [2]*labtest.Replica
	leader  int
	names   int
	ended   map[string]time.Time // when instances ended, by Node
	cut     map[string]bool      // kubelets that do not reach the API server
	reused  map[string]bool      // names that other machines have got
	known   map[string]*corev1.Node
	hours   []time.Time // lower bounds of the times of the program's deletions in the last hour
	watched time.Time
	deleted int
}

// launch adds a machine.
func (s *storm) launch() {
	s.names++
	s.add(fmt.Sprint("m", s.names))
}

// any returns the name of a Node.
func (s *storm) any() string {
	var all []string
	s.API.Do(func() { all = slices.Sorted(maps.Keys(s.API.Nodes)) })
	return all[s.rnd.IntN(len(all))]
}

// restart replaces a process by a new one, which has seen nothing. If the old one was the
// leader, the other process leads.
func (s *storm) restart(i int) {
	s.Replica = s.all[i]
	s.Kill()
	s.start(func(_ *controller.Options, o *Options) { o.Rules.Limit = 5 })
	s.c.judge.watching = time.Time{}
	s.all[i] = s.Replica
	s.Engine.Follow()
	if i == s.leader {
		s.lead(1 - i)
	}
	s.Replica = s.all[s.leader]
}

// lead makes a process the leader.
func (s *storm) lead(i int) {
	s.Replica, s.leader = s.all[i], i
	s.Begin()
}

// dice returns a source of random numbers below n for any goroutine.
func dice(seed uint64) func(n int) int {
	var mu sync.Mutex
	rnd := rand.New(rand.NewPCG(seed, 3))
	return func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		return rnd.IntN(n)
	}
}

// weather changes the faults of the cloud and the API server.
func (s *storm) weather() {
	rnd, n := dice(s.rnd.Uint64()), s.rnd.IntN(12)
	s.cloud.Do(func() {
		s.cloud.Revoked, s.cloud.Elsewhere, s.cloud.Fault = n == 0, n == 1, nil
		switch n {
		case 2: // some pages are missing
			s.cloud.Fault = func(c cloudtest.Call) ([]string, error) { return c.Keys[:rnd(len(c.Keys)+1)], nil }
		case 3, 4: // errors, with and without a part of the answer
			s.cloud.Fault = func(c cloudtest.Call) (some []string, err error) {
				if rnd(3) == 0 {
					return c.Keys, nil
				}
				return c.Keys[:rnd(len(c.Keys)+1)], &cloud.Error{Kind: cloud.Throttled, Action: c.Action, Text: "slow down"}
			}
		}
	})
	s.API.Do(func() {
		s.API.Refuse, s.API.Lose = nil, nil
		switch n {
		case 5:
			s.API.Refuse = func(r *http.Request) *metav1.Status {
				if rnd(2) == 0 {
					return apitest.Refusal(http.StatusServiceUnavailable, "by the test")
				}
				return nil
			}
		case 6:
			s.API.Lose = func(r *http.Request) bool { return r.Method != http.MethodGet }
		case 7:
			s.API.End()
			s.API.Forget()
		}
	})
}

// happen makes one random event of a machine.
func (s *storm) happen() {
	name := s.any()
	end, now := s.ended[name], time.Now()
	switch n := s.rnd.IntN(20); {
	case n < 3:
		s.launch()
	case n < 7 && end.IsZero():
		s.ended[name], s.cut[name] = now, true
		s.cloud.SetState(name, cloud.Terminated)
		s.SetReady(name, corev1.ConditionUnknown)
	case n < 9 && end.IsZero(), n < 8 && s.isMarked(name):
		s.cut[name] = true
		s.SetReady(name, corev1.ConditionUnknown)
	case n < 14 && (end.IsZero() || s.reused[name] && s.isMarked(name)):
		s.cut[name] = false
		s.SetReady(name, corev1.ConditionTrue)
	case n == 14 && !end.IsZero() && now.Sub(end) > 2*time.Minute:
		s.reused[name], s.cut[name] = true, false // it works until the controller notices it
		s.SetReady(name, corev1.ConditionTrue)
	case n == 15 && !end.IsZero() && now.Sub(end) > 70*time.Minute:
		s.cloud.Forget(name)
	case n == 16:
		s.restart(s.rnd.IntN(2))
	case n == 17:
		s.End()
		s.lead(1 - s.leader)
	case n == 18 && s.isMarked(name): // a person
		s.take(name)
		s.RemoveNode(name)
	case n == 19 && s.rnd.IntN(3) == 0: // a zone is cut off
		for i := range s.names / 3 {
			if m := fmt.Sprint("m", 3*i); s.API.Node(m) != nil && (!s.reused[m] || s.isMarked(m)) {
				s.cut[m] = true
				s.SetReady(m, corev1.ConditionUnknown)
			}
		}
	}
}

func (s *storm) isMarked(name string) bool {
	n := s.API.Node(name)
	return n != nil && n.Annotations[Mark] != ""
}

// take records that a person deletes a Node.
func (s *storm) take(name string) { delete(s.known, name) }

// watch checks the program's deletions since the last call.
func (s *storm) watch() {
	now := time.Now()
	nodes := make(map[string]*corev1.Node)
	s.API.Do(func() { nodes = maps.Clone(s.API.Nodes) })
	s.hours = slices.DeleteFunc(s.hours, func(at time.Time) bool { return now.Sub(at) >= time.Hour })
	gone := 0
	for name, n := range s.known {
		end := s.ended[name]
		if !end.IsZero() && now.Sub(end) > 3*time.Minute && n.Status.Conditions[0].Status != corev1.ConditionTrue {
			gone++ // as an answer has shown
		}
	}
	for name, n := range s.known {
		if nodes[name] != nil {
			continue
		}
		end := s.ended[name]
		switch {
		case end.IsZero():
			s.Errorf("%s is deleted, and its instance lives", name)
		case now.Sub(end) < Usual.Enough:
			s.Errorf("%s is deleted %s after its end", name, now.Sub(end))
		case s.reused[name]:
			s.Errorf("%s is deleted, and another machine has its name: %v", name, n.Annotations)
		case 2*gone > len(s.known)+2: // two may have been launched since the last call
			s.Errorf("%s is deleted while %d of %d are gone", name, gone, len(s.known))
		case len(s.hours) >= max(1, (len(s.known)+2+len(s.hours))*5/100):
			s.Errorf("%s is deleted, the %dth of %d within the hour", name, len(s.hours)+1, len(s.known))
		}
		s.hours = append(s.hours, s.watched)
		s.deleted++
	}
	s.known, s.watched = nodes, now
}

// TestNoStormDeletesALivingNode makes random faults of the cloud, the API server, the machines and
// the processes. No Node is deleted if its instance has not been gone for long, or if another
// machine has its name. All processes together delete no more Nodes in an hour than the limit
// allows. The test takes some seconds, because a day passes for two processes.
func TestNoStormDeletesALivingNode(t *testing.T) {
	deleted := 0
	for seed := range uint64(2) {
		inLab(t, func(l *lab) {
			s := &storm{
				lab: l, rnd: rand.New(rand.NewPCG(seed, 16)), ended: make(map[string]time.Time),
				cut: make(map[string]bool), reused: make(map[string]bool),
			}
			s.all[0] = l.Replica
			for range 25 {
				s.launch()
			}
			l.start()
			s.all[1] = l.Replica
			l.Engine.Follow()
			s.lead(0)
			s.watch()
			for range 8 * 60 {
				if s.rnd.IntN(8) == 0 {
					s.weather()
				}
				if s.rnd.IntN(2) == 0 {
					s.happen()
				}
				s.beat()
				l.Pass(time.Minute)
				s.watch()
			}
			deleted += s.deleted
		})
	}
	t.Logf("%d Nodes were deleted", deleted)
	if deleted < 8 {
		t.Errorf("only %d Nodes were deleted", deleted)
	}
}

// beat renews the Leases of the kubelets that use Nodes whose instances are gone.
func (s *storm) beat() {
	for _, name := range slices.Sorted(maps.Keys(s.ended)) {
		if !s.cut[name] && s.API.Node(name) != nil {
			s.renew(name, time.Now().String())
		}
	}
}
