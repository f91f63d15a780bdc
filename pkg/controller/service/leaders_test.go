package service

import (
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/cloud"
)

// hold holds every change from now on until release is called.
func (l *lab) hold() (release func()) {
	held := make(chan struct{})
	l.cloud.Do(func() { l.cloud.Hold = func(cloud.BalancerChange) <-chan struct{} { return held } })
	return func() {
		l.cloud.Do(func() { l.cloud.Hold = nil })
		close(held)
	}
}

// wantOneOfEach fails unless the cloud has the objects of one Service alone.
func (l *lab) wantOneOfEach() {
	l.Helper()
	if all := l.cloud.All(); len(all.Balancers) != 1 || len(all.Groups) != 1 || len(all.Security) != 2 {
		l.Errorf("%d balancers, %d target groups, %d security groups", len(all.Balancers), len(all.Groups), len(all.Security))
	}
}

// What a leader asked for before it was paused arrives after the next leader has done the
// work, or has undone it: nothing is made twice, and nothing is left.
func TestPausedLeaderMakesNothingTwice(t *testing.T) {
	for n := range 8 {
		for _, deleted := range []bool{false, true} {
			inLab(t, func(l *lab) {
				l.Begin()
				done, held := 0, make(chan struct{})
				l.cloud.Do(func() {
					l.cloud.Hold = func(cloud.BalancerChange) <-chan struct{} {
						if done++; done > n {
							return held
						}
						return nil
					}
				})
				l.add("web")
				l.Pass(2 * time.Second)
				l.cloud.Do(func() { l.cloud.Hold = nil })
				l.start() // the first one goes on: it does not know yet that its term is over
				l.Begin()
				if deleted {
					l.delete("web")
				}
				l.Pass(15 * time.Second)
				close(held)
				l.Pass(2 * time.Minute)
				if deleted {
					l.wantNothing()
					if l.API.Object(path("web")) != nil {
						t.Errorf("after %d: the Service is still there", n)
					}
					return
				}
				l.wantBalanced("web", 1, 2)
				l.wantOneOfEach()
			})
		}
	}
}

// A creation of an earlier leader that arrives after the first reading of the account is
// removed with its Service.
func TestLateCreationOfAnEarlierLeaderIsRemoved(t *testing.T) {
	inLab(t, func(l *lab) {
		l.Begin()
		l.add("web")
		release := l.hold()
		l.Pass(2 * time.Second)
		var asked []cloud.BalancerChange
		asked = append(asked, l.cloud.Changes()...)
		l.crash()
		release()
		l.delete("web")
		l.Pass(10 * time.Second)
		if len(asked) == 0 || !l.finalized("web") {
			t.Fatalf("%d changes, finalized %t", len(asked), l.finalized("web"))
		}
		for _, c := range asked {
			if _, err := l.cloud.ChangeBalancing(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
		l.Pass(time.Minute)
		l.wantNothing()
		if l.API.Object(path("web")) != nil {
			t.Error("the Service is still there")
		}
	})
}

// A leader that loses its term with a creation without an answer does not release the Lease
// as clean, so that the next one waits, too.
func TestUnansweredCreationIsNotClean(t *testing.T) {
	inLab(t, func(l *lab) {
		l.cloud.Do(func() {
			l.cloud.Fail = func(c cloud.BalancerChange) error {
				if c.Verb == cloud.CreateSecurityGroup {
					return &cloud.Error{Kind: cloud.Unavailable, Action: string(c.Verb), Text: "no answer"}
				}
				return nil
			}
		})
		l.Begin()
		l.Pass(lateTime)
		clean := func() (is bool) {
			l.Do(func() { is = l.c.Clean() })
			return is
		}
		if !clean() {
			t.Error("not clean without a creation")
		}
		l.add("web")
		l.Pass(5 * time.Second)
		if clean() {
			t.Error("clean with a creation without an answer")
		}
		l.cloud.Do(func() { l.cloud.Fail = nil })
		l.Pass(2 * lateTime)
		if !clean() {
			t.Error("never clean again")
		}
	})
}
