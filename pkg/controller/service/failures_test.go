package service

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/cloud/cloudtest"
	"github.com/tulle-net/tulle/pkg/cloudbalancer"
	"github.com/tulle-net/tulle/pkg/controller"
	"github.com/tulle-net/tulle/pkg/kube"
)

// Without the subnets, deletions go on and targets follow the Nodes.
func TestUnreadableSubnetsDelayNoDeletion(t *testing.T) {
	inLab(t, func(l *lab) {
		l.options.Cloud = withoutSubnets{l.cloud}
		l.Begin()
		l.add("web")
		l.add("old")
		l.Pass(10 * time.Second)
		l.wantBalanced("web", 1, 2)
		changes := len(l.cloud.Changes())
		l.crash()
		l.Pass(5 * time.Minute) // the readings of subnets back off
		l.delete("old")
		l.node(3)
		l.Pass(20 * time.Second)
		if l.API.Object(path("old")) != nil {
			t.Error("the Service is still there")
		}
		l.wantBalanced("web", 1, 2, 3)
		l.add("new")
		l.Pass(time.Minute)
		if got := l.verbs(changes); got[cloud.CreateBalancer]+got[cloud.CreateGroup]+got[cloud.CreateSecurityGroup] > 0 {
			t.Errorf("%v", got)
		}
	})
}

// withoutSubnets is a cloud whose subnets cannot be read.
type withoutSubnets struct{ *cloudtest.Balancers }

func (withoutSubnets) Subnets(context.Context) ([]cloud.Subnet, error) {
	return nil, &cloud.Error{Kind: cloud.Denied, Action: "DescribeRouteTables", Text: "denied"}
}

// deniedAccount is a cloud that denies all readings of the account, each under another ID.
type deniedAccount struct {
	*cloudtest.Balancers
	tries *int
}

func (d deniedAccount) Balancing(context.Context) (cloud.Balancing, error) {
	*d.tries++
	return cloud.Balancing{}, &cloud.Error{Kind: cloud.Denied, Action: "DescribeLoadBalancers", Text: "allow it in the policy", Request: fmt.Sprint("req-", *d.tries)}
}

// TestADenialIsToldOnce: a Service that waits for a denied reading gets one event, however often
// the reading is tried.
func TestADenialIsToldOnce(t *testing.T) {
	tries := 0
	inLab(t, func(l *lab) {
		l.Begin()
		l.add("web")
		l.Pass(time.Hour)
		if n := strings.Count(l.Event("web", failedReason), "\n"); n != 1 || tries < 10 {
			t.Errorf("%d events in %d tries", n, tries)
		}
		l.WantWarning("web", failedReason, "cannot read the account: DescribeLoadBalancers: allow it in the policy (request req-")
	}, func(o *Options) { o.Cloud = deniedAccount{o.Cloud.(*cloudtest.Balancers), &tries} })
}

// A Service that fails backs off alone, says why, and works when the cause is gone.
func TestFailureIsOneServices(t *testing.T) {
	for name, err := range map[string]error{
		"denied":      &cloud.Error{Kind: cloud.Denied, Action: "CreateLoadBalancer", Text: "allow it in the policy"},
		"full":        &cloud.Error{Kind: cloud.Full, Action: "CreateLoadBalancer", Text: "ask for more"},
		"refused":     &cloud.Error{Kind: cloud.Refused, Action: "CreateLoadBalancer", Text: "bad value"},
		"unavailable": &cloud.Error{Kind: cloud.Unavailable, Action: "CreateLoadBalancer", Text: "internal error"},
		"changed":     &cloud.Error{Kind: cloud.Changed, Action: "CreateLoadBalancer", Text: "the name is in use"},
	} {
		t.Run(name, func(t *testing.T) {
			inLab(t, func(l *lab) {
				bad, tries := cloudbalancer.BalancerName(uidOf("bad")), 0
				l.cloud.Do(func() {
					l.cloud.Fail = func(c cloud.BalancerChange) error {
						if c.Balancer.Name == bad {
							tries++
							return err
						}
						return nil
					}
				})
				l.Begin()
				l.add("bad")
				l.add("good")
				l.Pass(5 * time.Minute)
				l.wantBalanced("good", 1, 2)
				l.WantWarning("bad", "SyncLoadBalancerFailed", err.Error())
				if tries < 5 || tries > 20 {
					t.Errorf("%d tries in five minutes", tries)
				}
				l.cloud.Do(func() { l.cloud.Fail = nil })
				l.Pass(6 * time.Minute)
				l.wantBalanced("bad", 1, 2)
			})
		})
	}
}

// One instance that the cloud does not take keeps no other out.
func TestBadInstanceKeepsNoOtherOut(t *testing.T) {
	inLab(t, func(l *lab) {
		l.Begin()
		for i := 3; i <= 20; i++ {
			l.node(i)
		}
		l.cloud.Do(func() {
			l.cloud.Fail = func(c cloud.BalancerChange) error {
				for _, target := range c.Group.Targets {
					if c.Verb == cloud.Register && target.ID == "i-"+nameOf(7) {
						return &cloud.Error{Kind: cloud.Refused, Action: "RegisterTargets", Text: "InvalidTarget"}
					}
				}
				return nil
			}
		})
		l.add("web")
		l.Pass(time.Minute)
		if got := len(l.cloud.Targets(cloudbalancer.BalancerName(uidOf("web")), 80)); got != 19 {
			t.Errorf("%d targets", got)
		}
		l.cloud.Do(func() { l.cloud.Fail = nil })
		l.Pass(6 * time.Minute)
		if got := len(l.cloud.Targets(cloudbalancer.BalancerName(uidOf("web")), 80)); got != 20 {
			t.Errorf("%d targets", got)
		}
	})
}

// Unusable annotations are told with the fix, and change nothing.
func TestUnusableAnnotationChangesNothing(t *testing.T) {
	inLab(t, func(l *lab) {
		l.Begin()
		l.add("web")
		l.Pass(10 * time.Second)
		changes := len(l.cloud.Changes())
		l.change("web", annotate("healthcheck-interval", "fast"))
		l.Pass(10 * time.Second)
		l.WantWarning("web", "SyncLoadBalancerFailed", "healthcheck-interval", "fast", "5 to 300")
		l.node(3) // its targets follow
		l.Pass(10 * time.Second)
		l.wantBalanced("web", 1, 2, 3)
		if got := l.verbs(changes); got[cloud.Register] != 1 || len(got) != 1 {
			t.Errorf("%v", got)
		}
	})
}

// Without an answer of the cloud nothing is changed, and nothing is lost.
func TestUnreadableCloud(t *testing.T) {
	inLab(t, func(l *lab) {
		l.Begin()
		l.add("web")
		l.Pass(10 * time.Second)
		changes := len(l.cloud.Changes())
		l.cloud.Do(func() { l.cloud.Unreadable = &cloud.Error{Kind: cloud.Unavailable, Action: "Describe", Text: "down"} })
		l.crash()
		l.delete("web")
		l.Pass(10 * time.Minute)
		if got := l.verbs(changes); len(got) > 0 || !l.finalized("web") {
			t.Errorf("%v", got)
		}
		l.cloud.Do(func() { l.cloud.Unreadable = nil })
		l.Pass(3 * time.Minute)
		l.wantNothing()
	})
}

// The answer to a write may come after the watch has shown a later state. It must not make
// the next write require the earlier one.
func TestLateAnswerDoesNotUndoTheWatch(t *testing.T) {
	inLab(t, func(l *lab) {
		l.Begin()
		l.add("web")
		l.Pass(10 * time.Second)
		hold := make(chan struct{})
		l.cloud.Do(func() { l.cloud.Hold = func(cloud.BalancerChange) <-chan struct{} { return hold } })
		l.delete("web")
		l.Pass(time.Second)
		l.Do(func() {
			s := l.c.services["default/web"]
			l.c.answers.Store(s.UID, answered{kube.Version{UID: s.UID, ResourceVersion: "1"}, func() {}})
			l.c.Done(controller.Write{Controller: Name, Object: s.ref()}, nil)
		})
		close(hold)
		l.Pass(time.Minute)
		if l.API.Object(path("web")) != nil {
			t.Errorf("%v", l.API.Object(path("web")))
		}
	})
}
