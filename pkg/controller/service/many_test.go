package service

import (
	"fmt"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/cloud"
)

// The calls for many Services grow with what changes, not with what there is.
func TestManyServicesCostWhatChanges(t *testing.T) {
	const many = 250
	inLab(t, func(l *lab) {
		l.Begin()
		name := func(i int) string { return fmt.Sprintf("s%03d", i) }
		began := time.Now()
		for i := range many {
			l.add(name(i), func(d map[string]any) {
				d["spec"].(map[string]any)["ports"].([]any)[0].(map[string]any)["nodePort"] = int64(30000 + i)
			})
		}
		l.Pass(30 * time.Second)
		for i := range many {
			l.wantBalanced(name(i), 1, 2)
		}
		all := l.verbs(0)
		for _, verb := range []cloud.BalancerVerb{cloud.CreateSecurityGroup, cloud.CreateGroup, cloud.CreateBalancer, cloud.CreateListener, cloud.Register} {
			if all[verb] != many {
				t.Errorf("%d times %s for %d Services", all[verb], verb, many)
			}
		}
		if n := len(l.cloud.Changes()); n != 7*many {
			t.Errorf("%d changes", n)
		}
		// A Node more is one change of each, and no reading of details.
		before, reads := len(l.cloud.Changes()), l.cloud.Reads()
		l.node(3)
		l.Pass(10 * time.Second)
		if all := l.verbs(before); len(all) != 1 || all[cloud.Register] != many {
			t.Errorf("a Node more: %v", all)
		}
		// A change of one Service, and its end, concern that one.
		before = len(l.cloud.Changes())
		l.change(name(7), annotate("cross-zone-load-balancing-enabled", "true"))
		l.Pass(10 * time.Second)
		if all := l.verbs(before); len(all) != 1 || all[cloud.SetBalancerAttributes] != 1 {
			t.Errorf("a change: %v", all)
		}
		before = len(l.cloud.Changes())
		l.delete(name(8))
		l.Pass(10 * time.Second)
		if n := len(l.cloud.Changes()) - before; n != 4 {
			t.Errorf("a deletion: %v", l.verbs(before))
		}
		if now := l.cloud.Reads(); now["Details"] > reads["Details"]+1 || now["Balancing"] > reads["Balancing"]+1 {
			t.Errorf("reads %v, before %v", now, reads)
		}
		if took := time.Since(began); took > 2*time.Minute {
			t.Errorf("it took %s", took)
		}
		// Another leader reads each detail once, in readings that end in time. Meanwhile, it
		// serves a new Service, and changes nothing else.
		before, reads = len(l.cloud.Changes()), l.cloud.Reads()
		l.crash()
		l.add("new")
		l.Pass(30 * time.Second)
		l.wantBalanced("new", 1, 2, 3)
		now := l.cloud.Reads()
		if n := now["Details"] - reads["Details"]; n < 2*many/mostDetails || n > 2*many/mostDetails+2 {
			t.Errorf("%d readings of details", n)
		}
		if n := len(l.cloud.Changes()) - before; n != 7 {
			t.Errorf("after a restart: %v", l.verbs(before))
		}
	})
}

// slow makes every change take a time.
func (l *lab) slow(d time.Duration) {
	l.cloud.Do(func() {
		l.cloud.Hold = func(cloud.BalancerChange) <-chan struct{} {
			done := make(chan struct{})
			time.AfterFunc(d, func() { close(done) })
			return done
		}
	})
}

// The account is read in time while changes of many Services follow one another without a
// pause: a deletion may wait for that.
func TestReadingIsNotStarvedByChanges(t *testing.T) {
	inLab(t, func(l *lab) {
		l.Begin()
		l.slow(5 * time.Second)
		const many = 150
		name := func(i int) string { return fmt.Sprintf("s%03d", i) }
		for i := range many {
			l.add(name(i), port(30100+i))
		}
		l.Pass(4 * time.Minute)
		if n := l.cloud.Reads()["Balancing"]; n < 3 {
			t.Errorf("%d readings", n)
		}
		if n := len(l.cloud.Changes()); n == 7*many {
			t.Error("the changes ended too early for this test")
		}
		l.Pass(5 * time.Minute)
		for i := range many {
			l.wantBalanced(name(i), 1, 2)
		}
		if n := len(l.cloud.Changes()); n != 7*many {
			t.Errorf("%d changes", n)
		}
	}, func(o *Options) { o.Period = 30 * time.Second })
}

// After an unclean start of a term, creations that get no answer delay no deletion of
// another Service.
func TestUnansweredCreationsDelayNoOtherService(t *testing.T) {
	inLab(t, func(l *lab) {
		l.Begin()
		l.add("web")
		l.Pass(time.Minute)
		l.crash()
		l.cloud.Do(func() {
			l.cloud.Fail = func(c cloud.BalancerChange) error {
				if c.Verb == cloud.CreateGroup {
					return &cloud.Error{Kind: cloud.Unavailable, Action: "create", Text: "no answer"}
				}
				return nil
			}
		})
		for i := range 20 {
			l.add(fmt.Sprintf("s%03d", i), port(30100+i))
			l.Pass(time.Second)
		}
		l.delete("web")
		for range 4 {
			l.Pass(20 * time.Second)
			for i := range 20 { // people try again
				l.change(fmt.Sprintf("s%03d", i), annotate("healthcheck-port", fmt.Sprint(10000+time.Now().Unix()%10000)))
			}
		}
		if l.API.Object(path("web")) != nil {
			t.Error("the deleted Service is still there")
		}
	})
}
