package election

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tulle-net/tulle/pkg/kube/apitest"
)

// TestOneOfManyLeads: replicas that start together elect one. Its Lease has the fields of
// client-go's, and its first term is clean.
func TestOneOfManyLeads(t *testing.T) {
	inLab(t, func(l *lab) {
		all := l.many(10)
		leader, took := l.leads(time.Second, all...)
		l.wait(20 * time.Minute)
		if n := leading(all); n != 1 || took > 0 || len(l.terms.all()) != 1 {
			t.Errorf("%d of 10 lead, the first after %s, %d terms", n, took, len(l.terms.all()))
		}
		if term := l.terms.all()[0]; !term.Clean || term.Number != 0 || term.ID == "" {
			t.Errorf("%+v", term.Term)
		}
		spec := l.spec()
		if spec["holderIdentity"] != leader.identity || !strings.HasPrefix(leader.identity, leader.name+"_") || spec["leaseDurationSeconds"] != 15.0 || spec["leaseTransitions"] != 0.0 {
			t.Errorf("%v", spec)
		}
		for _, field := range []string{"acquireTime", "renewTime"} {
			if at, err := time.Parse(metav1.RFC3339Micro, fmt.Sprint(spec[field])); err != nil || len(fmt.Sprint(spec[field])) != len("2006-01-02T15:04:05.000000Z") || at.After(time.Now()) {
				t.Errorf("%s is %v: %v", field, spec[field], err)
			}
		}
		for _, r := range all {
			if s := r.Status(); s.Leader != leader.identity || !s.Known || s.Leading != (r == leader) || s.Failing != nil || s.Renewed.IsZero() == s.Leading || s.Since.After(time.Now().Add(-20*time.Minute)) {
				t.Errorf("%s reports %+v", r.name, s)
			}
		}
		// The leader renews every two seconds, the others only watch.
		if puts, gets := l.f.Asked("PUT"), l.f.Asked("GET /"+path); puts < 570 || puts > 630 || gets > 20 {
			t.Errorf("%d updates and %d reads in 20 minutes", puts, gets)
		}
	})
}

// TestCleanReleaseHandsOverAtOnce: after a clean end another replica leads at once, or
// after a retry period where it cannot watch the Lease.
func TestCleanReleaseHandsOverAtOnce(t *testing.T) {
	for name, within := range map[string]time.Duration{"watched": 0, "unwatched": 2 * time.Second} {
		t.Run(name, func(t *testing.T) {
			inLab(t, func(l *lab) {
				if name == "unwatched" {
					l.f.Refuse = func(r *http.Request) *metav1.Status {
						if r.URL.Query().Get("fieldSelector") != "" {
							return apitest.Refusal(http.StatusForbidden, "leases is forbidden")
						}
						return nil
					}
				}
				all := l.many(2)
				for i := range 5 {
					l.wait(time.Duration(i) * 500 * time.Millisecond)
					leader, _ := l.leads(time.Second, all...)
					l.wait(time.Minute)
					leader.stop()
					if spec := l.spec(); spec["holderIdentity"] == leader.identity {
						t.Errorf("not released: %v", spec)
					}
					all = append(without(all, leader), l.replica(fmt.Sprintf("next-%d", i), nil))
					if _, took := l.leads(within, all...); took > within {
						t.Errorf("took %s", took)
					}
				}
				for i, term := range l.terms.all() {
					if !term.Clean || term.Number != int64(i) {
						t.Errorf("%+v", term)
					}
				}
			})
		})
	}
}

// TestKilledLeaderIsReplaced: another replica leads after the lease duration, and at
// most a retry period later. It knows that the earlier leader may still be writing.
func TestKilledLeaderIsReplaced(t *testing.T) {
	for i := range 10 {
		inLab(t, func(l *lab) {
			all := l.many(3)
			leader, _ := l.leads(time.Second, all...)
			l.wait(time.Minute + time.Duration(i)*300*time.Millisecond)
			leader.cutOff()
			next, took := l.leads(20*time.Second, without(all, leader)...)
			if took < 13*time.Second || took > 17*time.Second {
				t.Errorf("took %s", took)
			}
			last := l.terms.all()[1]
			if last.Clean || last.Number != 1 || next.Status().Transitions != 1 {
				t.Errorf("%+v", last.Term)
			}
			if leader.Status().Leading {
				t.Error("two replicas lead")
			}
		})
	}
}

// TestUncleanEndHandsOverSoon: after a term whose writes may still arrive, another replica
// leads soon, in a term that is not clean.
func TestUncleanEndHandsOverSoon(t *testing.T) {
	inLab(t, func(l *lab) {
		first := l.replica("first", func(r *replica) { r.unclean = true })
		l.leads(time.Second, first)
		second := l.replica("second", nil)
		l.wait(time.Minute)
		first.stop()
		if _, took := l.leads(5*time.Second, second); took < time.Second || took > 1100*time.Millisecond {
			t.Errorf("took %s", took)
		}
		if last := l.terms.all()[1]; last.Clean {
			t.Error("clean")
		}
	})
}

// TestLeaderStopsBeforeItsLeaseEnds: a leader whose requests get no answer, or are
// refused, stops at its deadline. It leads again once the server answers.
func TestLeaderStopsBeforeItsLeaseEnds(t *testing.T) {
	for name, fault := range map[string]func(f *apitest.Server, over <-chan struct{}){
		"held": func(f *apitest.Server, over <-chan struct{}) {
			f.Hold = func(*http.Request) <-chan struct{} { return over }
		},
		"refused": func(f *apitest.Server, over <-chan struct{}) {
			f.Refuse = func(*http.Request) *metav1.Status {
				select {
				case <-over:
					return nil
				default:
					return apitest.Refusal(http.StatusInternalServerError, "no")
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			inLab(t, func(l *lab) {
				r := l.replica("only", nil)
				l.leads(time.Second, r)
				l.wait(time.Minute + time.Second)
				over := make(chan struct{})
				l.f.Do(func() { fault(l.f, over) })
				deadline := l.terms.all()[0].Deadline()
				if left := time.Until(deadline); left < 7*time.Second || left > 10*time.Second {
					t.Errorf("the deadline is in %s", left)
				}
				l.wait(time.Until(deadline) - time.Millisecond)
				if !r.Status().Leading {
					t.Error("stopped before its deadline")
				}
				l.wait(2 * time.Millisecond)
				term := l.terms.all()[0]
				if term.ended.IsZero() || term.ended.After(deadline) || !term.Deadline().Equal(deadline) || r.Status().Leading || r.Status().Failing == nil {
					t.Errorf("%+v, the deadline was %s: %+v", term, deadline, r.Status())
				}
				l.wait(time.Minute)
				close(over)
				l.f.Cut()
				l.leads(10*time.Second, r)
				if last := l.terms.all()[1]; !last.Clean || last.Number <= term.Number || r.Status().Failing != nil {
					t.Errorf("%+v: %+v", last.Term, r.Status())
				}
			})
		})
	}
}

// TestSlowServerKeepsItsLeader: a leader keeps the Lease while each answer takes three
// seconds, or every second answer is lost.
func TestSlowServerKeepsItsLeader(t *testing.T) {
	for name, fault := range map[string]func(f *apitest.Server){
		"slow": func(f *apitest.Server) {
			f.Hold = func(*http.Request) <-chan struct{} {
				held := make(chan struct{})
				time.AfterFunc(3*time.Second, func() { close(held) })
				return held
			}
		},
		"lost": func(f *apitest.Server) {
			var n atomic.Int64
			f.Lose = func(r *http.Request) bool { return r.Method != http.MethodGet && n.Add(1)%2 == 0 }
		},
		"refused at times": func(f *apitest.Server) {
			var n atomic.Int64
			f.Refuse = func(r *http.Request) *metav1.Status {
				if r.Method == http.MethodPut && n.Add(1)%3 > 0 {
					return apitest.Refusal(http.StatusTooManyRequests, "busy")
				}
				return nil
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			inLab(t, func(l *lab) {
				all := l.many(3)
				leader, _ := l.leads(time.Second, all...)
				l.f.Do(func() { fault(l.f) })
				l.wait(10 * time.Minute)
				if !leader.Status().Leading || len(l.terms.all()) != 1 {
					t.Errorf("%d terms: %+v", len(l.terms.all()), leader.Status())
				}
			})
		})
	}
}

// TestAcquisitionWithoutAnAnswerLeads: a replica whose acquisition succeeded, but whose
// answer was lost, leads. Its term is as clean as with an answer.
func TestAcquisitionWithoutAnAnswerLeads(t *testing.T) {
	for _, unclean := range []bool{false, true} {
		inLab(t, func(l *lab) {
			first := l.replica("first", func(r *replica) { r.unclean = unclean })
			l.leads(time.Second, first)
			first.stop()
			var writes atomic.Int64
			l.f.Do(func() {
				l.f.Lose = func(r *http.Request) bool { return r.Method == http.MethodPut && writes.Add(1) < 3 }
			})
			l.leads(20*time.Second, l.replica("second", nil))
			if last := l.terms.all()[1]; last.Clean == unclean || writes.Load() != 3 {
				t.Errorf("unclean end %t: %+v, %d writes", unclean, last.Term, writes.Load())
			}
		})
	}
}

// TestClocksMayDiffer: replicas whose clocks are hours apart, or stand still, lead and
// take over as others do.
func TestClocksMayDiffer(t *testing.T) {
	inLab(t, func(l *lab) {
		var all []*replica
		for i, offset := range []time.Duration{-5 * time.Hour, 0, 7 * time.Hour} {
			all = append(all, l.replica(fmt.Sprintf("host-%d", i), func(r *replica) {
				r.clock = func() time.Time { return time.Now().Add(offset) }
			}))
		}
		// A replica whose clock stands still also renews its Lease.
		stuck := time.Now()
		all = append(all, l.replica("stuck", func(r *replica) { r.clock = func() time.Time { return stuck } }))
		for len(all) > 1 {
			leader, _ := l.leads(20*time.Second, all...)
			l.wait(5 * time.Minute)
			if !leader.Status().Leading {
				t.Errorf("%s lost the Lease", leader.name)
			}
			leader.cutOff()
			all = without(all, leader)
		}
		if n := len(l.terms.all()); n < 3 {
			t.Errorf("%d terms", n)
		}
		synctest.Wait()
	})
}

// TestLateAbsenceDoesNotHideTheLease: the answer "no Lease" to a read arrives after the
// watch has shown one. The replica does not count the Lease as deleted.
func TestLateAbsenceDoesNotHideTheLease(t *testing.T) {
	inLab(t, func(l *lab) {
		late := make(chan struct{})
		slow := l.replica("slow", func(r *replica) {
			r.delay = func(q *http.Request) <-chan struct{} {
				if q.Method == http.MethodGet && strings.HasSuffix(q.URL.Path, path) {
					return late
				}
				return nil
			}
		})
		l.wait(time.Second)
		leader, _ := l.leads(time.Second, l.replica("quick", nil))
		close(late)
		synctest.Wait()
		if s := slow.Status(); s.Leader != leader.identity || s.Leading {
			t.Errorf("%+v", s)
		}
		l.wait(time.Minute)
		if n := l.f.Asked("POST"); n != 1 || len(l.terms.all()) != 1 {
			t.Errorf("%d creations, %d terms", n, len(l.terms.all()))
		}
	})
}
