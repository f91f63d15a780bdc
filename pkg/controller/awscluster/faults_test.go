package awscluster

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tulle-net/tulle/pkg/awsnet"
	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/kube/apitest"
)

// sound fails unless the network of an AWSCluster is complete, without anything twice.
func (l *lab) sound(name string) {
	l.Helper()
	l.ready(name)
	a, owner := l.accounts[home], l.owner(name)
	a.Do(func() {
		if h := awsnet.Sort(owner, nil, a.model.Read()); len(h.Twins) > 0 || len(a.model.IDs(awsnet.KindVPC)) != 1 {
			l.Errorf("%s: twins %v, VPCs %v", name, h.Twins, a.model.IDs(awsnet.KindVPC))
		}
	})
}

// TestEveryCallFailsOnce makes each call of the life of a network fail once, in each way: the
// network is built and deleted nevertheless, with nothing twice and nothing left.
func TestEveryCallFailsOnce(t *testing.T) {
	for way, err := range map[string]error{
		"refused": &cloud.Error{Kind: cloud.Denied, Action: "X", Text: "not allowed"}, "unavailable": errDown,
		"throttled": &cloud.Error{Kind: cloud.Throttled, Action: "X", Text: "slow down"}, "pending": &cloud.Error{Kind: cloud.Pending, Action: "X", Text: "not shown yet"},
		"lost": nil,
	} {
		inLab(t, func(l *lab) {
			a, failed := l.accounts[home], make(map[string]bool)
			once := func(call string) error {
				if failed[call] {
					return nil
				}
				failed[call] = true
				return err
			}
			if a.fail = once; err == nil {
				a.fail, a.lose = nil, func(call string) error {
					if failed[call] {
						return nil
					}
					failed[call] = true
					return errDown
				}
			}
			l.cluster("prod", `{}`)
			l.awsCluster("prod", small)
			l.Begin()
			l.Pass(30 * time.Minute)
			l.sound("prod")
			owner := l.owner("prod")
			l.delete("prod")
			l.Pass(30 * time.Minute)
			if _, exists := l.get("prod"); exists || len(a.left(owner)) > 0 {
				t.Errorf("%s: left over: %v, %s", way, a.left(owner), l.condition("prod", "Ready"))
			}
			a.Do(func() {
				if len(failed) < 20 {
					t.Errorf("%s: only %v failed", way, failed)
				}
			})
		})
	}
}

// TestLastingErrorBacksOff: an error that lasts is named in the conditions and costs few calls.
// It harms no other cluster.
func TestLastingErrorBacksOff(t *testing.T) {
	for _, call := range []string{"Zones", "Network", "Usage", "CreateVpc", "CreateSubnet", "CreateNatGateway"} {
		inLab(t, func(l *lab) {
			a := l.accounts[home]
			a.fail = func(asked string) error {
				if asked == call {
					return &cloud.Error{Kind: cloud.Denied, Action: call, Text: "add the permission ec2:" + call}
				}
				return nil
			}
			l.accounts["eu-west-1"] = newAccount("eu-west-1")
			l.cluster("prod", `{}`)
			l.cluster("other", `{}`)
			l.awsCluster("prod", small)
			l.awsCluster("other", strings.Replace(small, home, "eu-west-1", 1))
			l.Begin()
			l.Pass(2 * time.Minute)
			l.ready("other")
			before := a.count(call)
			l.Pass(30 * time.Minute)
			if n := a.count(call) - before; n < 4 || n > 6*12 { // six subnets, 2.5 minutes apart
				t.Errorf("%s failed %d times in half an hour", call, n)
			}
			l.wants("prod", "Ready", "permission ec2:"+call)
			l.WantWarning("prod", map[bool]string{true: "ReadingFailed", false: "ChangeFailed"}[slices.Contains([]string{"Zones", "Network", "Usage"}, call)], "permission ec2:"+call)
			a.Do(func() { a.fail = nil })
			l.Pass(15 * time.Minute)
			l.sound("prod")
		})
	}
}

// TestSlowRegionDelaysNoOther: regions that do not answer hold up their own clusters alone.
func TestSlowRegionDelaysNoOther(t *testing.T) {
	inLab(t, func(l *lab) {
		l.accounts["eu-west-1"] = newAccount("eu-west-1")
		for i := range 36 {
			name, region := fmt.Sprintf("slow-%d", i), fmt.Sprintf("us-east-%d", 1+i%3)
			if l.accounts[region] == nil {
				l.accounts[region] = newAccount(region)
			}
			l.accounts[region].slow = time.Hour
			l.cluster(name, `{}`)
			l.awsCluster(name, strings.Replace(small, home, region, 1))
		}
		l.cluster("fine", `{}`)
		l.awsCluster("fine", strings.Replace(small, home, "eu-west-1", 1))
		l.Begin()
		l.Pass(time.Minute)
		l.ready("fine")
		l.wants("slow-0", "Ready", "Unknown", "ReadingFailed")
	})
}

// TestManyClustersAreBuiltSideBySide: a dozen networks take little longer than one, with few
// calls of each at once.
func TestManyClustersAreBuiltSideBySide(t *testing.T) {
	inLab(t, func(l *lab) {
		for i := range 12 {
			region := fmt.Sprintf("us-east-%d", i+1)
			l.accounts[region] = newAccount(region)
			l.accounts[region].slow = 200 * time.Millisecond
			name := fmt.Sprintf("c%02d", i)
			l.cluster(name, `{}`)
			l.awsCluster(name, strings.Replace(small, home, region, 1))
		}
		l.Begin()
		l.Pass(3 * time.Minute)
		for i := range 12 {
			l.ready(fmt.Sprintf("c%02d", i))
		}
		for region, a := range l.accounts {
			a.Do(func() {
				if a.most > mostOfOne {
					t.Errorf("%s: %d changes at once", region, a.most)
				}
			})
		}
	})
}

// TestQuotasAreMetBeforeTheFirstCall: a quota that does not suffice is named, and nothing is
// made.
func TestQuotasAreMetBeforeTheFirstCall(t *testing.T) {
	inLab(t, func(l *lab) {
		a := l.accounts[home]
		a.usage = map[string]awsnet.Usage{"L-0263D0A3": {Limit: 5, Used: 4}}
		l.cluster("prod", `{}`)
		l.awsCluster("prod", small)
		l.Begin()
		l.Pass(10 * time.Minute)
		l.wants("prod", "Ready", "False QuotaExceeded", "elastic addresses", "the limit is 5", "4 are used", "3 more")
		if a.made() > 0 {
			t.Errorf("%d calls", a.made())
		}
		a.Do(func() { a.usage = nil })
		l.Pass(10 * time.Minute)
		l.sound("prod")
	})
}

// TestKilledAnywhere kills the leader every few seconds while it builds and while it deletes.
func TestKilledAnywhere(t *testing.T) {
	for _, every := range []time.Duration{700 * time.Millisecond, 1900 * time.Millisecond, 3300 * time.Millisecond} {
		inLab(t, func(l *lab) {
			a := l.accounts[home]
			a.slow = 300 * time.Millisecond
			l.cluster("prod", `{}`)
			l.awsCluster("prod", small)
			l.Begin()
			for range 12 {
				l.Pass(every)
				l.crash()
				l.Pass(lateTime) // what a replica waits after an unclean term
			}
			l.Pass(3 * time.Minute)
			l.sound("prod")
			owner := l.owner("prod")
			l.delete("prod")
			for range 8 {
				l.Pass(every)
				l.crash()
			}
			l.Pass(3 * time.Minute)
			if _, exists := l.get("prod"); exists || len(a.left(owner)) > 0 {
				t.Errorf("%s: left over: %v", every, a.left(owner))
			}
		})
	}
}

// TestAPIServerFails: refused and lost writes to the API server are made again.
func TestAPIServerFails(t *testing.T) {
	inLab(t, func(l *lab) {
		n := 0
		l.API.Refuse = func(r *http.Request) *metav1.Status {
			if r.Method != http.MethodPatch {
				return nil
			}
			if n++; n%3 == 1 {
				return apitest.Refusal(http.StatusConflict, "changed")
			}
			return nil
		}
		l.API.Lose = func(r *http.Request) bool { return r.Method == http.MethodPatch && n%3 == 2 }
		l.cluster("prod", `{}`)
		l.awsCluster("prod", small)
		l.Begin()
		l.Pass(5 * time.Minute)
		l.sound("prod")
		l.delete("prod")
		l.Pass(5 * time.Minute)
		if _, exists := l.get("prod"); exists {
			t.Errorf("the finalizer stays: %s", l.condition("prod", "Ready"))
		}
	})
}

// TestMovedObjectKeepsItsNetwork: an object that is created again in another management
// cluster has another uid, and the same network. A copy in the same cluster is refused.
func TestMovedObjectKeepsItsNetwork(t *testing.T) {
	inLab(t, func(l *lab) {
		l.build()
		a, o := l.accounts[home], l.API.Object(awsPath("prod"))
		made := a.made()
		l.object("DELETED", awsPath("prod"), o)
		m := o["metadata"].(map[string]any)
		m["uid"], m["resourceVersion"] = "another", ""
		l.Pass(time.Minute)
		l.object("ADDED", awsPath("prod"), o)
		l.Pass(3 * time.Minute)
		l.sound("prod")
		if a.made() != made {
			t.Errorf("%d changes after the move", a.made()-made)
		}
		l.API.Do(func() {
			m["uid"], m["creationTimestamp"], m["namespace"] = "copy", "2030-01-01T00:00:00Z", "other"
			l.API.ChangeObject("ADDED", strings.Replace(awsPath("prod"), "/default/", "/other/", 1), o)
			l.API.ChangeObject("ADDED", strings.Replace(clusterPath("prod"), "/default/", "/other/", 1), map[string]any{"metadata": map[string]any{}})
		})
		l.Pass(3 * time.Minute)
		if text := fmt.Sprint(l.API.Object(strings.Replace(awsPath("prod"), "/default/", "/other/", 1))["status"]); !strings.Contains(text, "is also the network of default/prod") {
			t.Errorf("the copy has %s", text)
		}
		l.sound("prod")
	})
}

// TestPreviewMakesNothing: a preview has every step, the finalizer first, and makes none.
func TestPreviewMakesNothing(t *testing.T) {
	inLab(t, func(l *lab) {
		l.Kill()
		l.preview = true
		l.start()
		l.Engine.Follow()
		l.cluster("prod", `{}`)
		l.awsCluster("prod", small)
		l.Pass(10 * time.Second)
		writes, err := l.Engine.PlanAll(l.Context())
		if err != nil || len(writes) < 40 {
			t.Errorf("%v, %d writes", err, len(writes))
		}
		var texts []string
		for _, w := range writes {
			texts = append(texts, w.Verb+" "+w.Object.Kind+" "+w.Object.Name+": "+w.Summary)
		}
		all := strings.Join(texts, "\n")
		for _, part := range []string{"add the finalizer", "create vpc prod: main: ", "create nat-gateway prod: "} {
			if !strings.Contains(all, part) {
				t.Errorf("the plan lacks %q:\n%s", part, all)
			}
		}
		if a := l.accounts[home]; a.made() > 0 {
			t.Errorf("%d calls", a.made())
		}
	})
}

// TestTwoLeadersInTurn: a leader that ends cleanly leaves no call behind, and the next one goes
// on at once.
func TestTwoLeadersInTurn(t *testing.T) {
	inLab(t, func(l *lab) {
		a := l.accounts[home]
		a.slow, l.Clean = 200*time.Millisecond, true
		l.cluster("prod", `{}`)
		l.awsCluster("prod", small)
		l.Begin()
		first := l.Replica
		for range 6 {
			l.Pass(2 * time.Second)
			l.End()
			a.Do(func() {
				if a.now > 0 {
					t.Errorf("%d calls in flight after the term", a.now)
				}
			})
			l.start()
			l.Begin()
		}
		first.Kill()
		l.Pass(3 * time.Minute)
		l.sound("prod")
	})
}

// TestFinalizerWaitsForALateCreation: after an unclean term, AWS may show an object of the last
// leader only later, so a reading that finds nothing does not count yet.
func TestFinalizerWaitsForALateCreation(t *testing.T) {
	for _, clean := range []bool{true, false} {
		inLab(t, func(l *lab) {
			l.Clean = clean
			l.cluster("prod", `{}`)
			l.awsCluster("prod", small, `{"uid": "u", "finalizers": ["`+Finalizer+`"], "annotations": {"tulle.net/network": "us-east-1/prod/u"}, "deletionTimestamp": "2026-01-02T03:04:05Z"}`)
			l.Begin()
			l.Pass(lateTime - 2*time.Second)
			if _, exists := l.get("prod"); exists == clean {
				t.Errorf("clean %v: before AWS shows everything: it exists: %v", clean, exists)
			}
			l.Pass(10 * time.Second)
			if o, exists := l.get("prod"); exists {
				t.Errorf("clean %v: the finalizer stays: %+v", clean, o.status)
			}
		})
	}
}

// TestLateCreationIsNotRepeated: the leader is cut off while AWS carries out its call, and AWS
// shows the object only after the next leader has begun. Neither a new network nor one that
// has worked for long gets the object twice.
func TestLateCreationIsNotRepeated(t *testing.T) {
	for _, c := range []struct {
		call  string
		lost  awsnet.Kind // of a network that works
		times int         // that the call is made
	}{
		{"CreateVpc", "", 1}, {"AllocateAddress", "", 3}, {"CreateSubnet", "", 6},
		{"AllocateAddress", awsnet.KindAddress, 4}, {"CreateInternetGateway", awsnet.KindInternetGateway, 2},
	} {
		inLab(t, func(l *lab) {
			a, under := l.accounts[home], false
			fault := func() {
				a.late = func(call string) bool {
					if under || call != c.call {
						return false
					}
					under = true
					return true
				}
			}
			if c.lost == "" {
				a.Do(fault)
				l.cluster("prod", `{}`)
				l.awsCluster("prod", small)
				l.Begin()
			} else {
				l.build()
				a.Do(func() {
					for _, id := range a.model.IDs(c.lost)[:1] {
						a.model.Drop(id)
					}
					fault()
				})
			}
			for range 300 {
				l.Pass(time.Second)
				cut := false
				if a.Do(func() { cut = under }); cut {
					break
				}
			}
			l.crash()
			l.Pass(5 * time.Minute)
			l.sound("prod")
			a.Do(func() {
				if n := a.model.Calls[c.call]; n != c.times || !under {
					t.Errorf("%s %s: it was called %d times, want %d", c.call, c.lost, n, c.times)
				}
			})
		})
	}
}
