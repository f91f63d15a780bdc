package service

import (
	"fmt"
	"maps"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/cloud/cloudtest"
	"github.com/tulle-net/tulle/pkg/cloudbalancer"
	"github.com/tulle-net/tulle/pkg/kube/apitest"
)

// A new Service costs seven changes, and deleting it leaves nothing.
func TestServiceComesAndGoes(t *testing.T) {
	inLab(t, func(l *lab) {
		l.Begin()
		if reads := l.cloud.Reads(); len(reads) > 0 {
			t.Errorf("without a Service: %v", reads)
		}
		l.add("web")
		l.Pass(5 * time.Second)
		l.wantBalanced("web", 1, 2)
		if n := len(l.cloud.Changes()); n != 7 {
			t.Errorf("%d changes: %v", n, l.verbs(0))
		}
		if reads := l.cloud.Reads(); !maps.Equal(reads, map[string]int{"Balancing": 1, "Subnets": 1, "BalancerQuota": 1}) {
			t.Errorf("%v", reads)
		}
		l.cloud.Do(func() { l.cloud.Linger = 5 })
		l.delete("web")
		l.Pass(3 * time.Minute)
		if l.API.Object(path("web")) != nil {
			t.Errorf("the Service is still there: %v", l.API.Object(path("web")))
		}
		l.wantNothing()
	})
}

// Nothing but two readings of the account goes on in twenty minutes.
func TestIdleServiceCostsLittle(t *testing.T) {
	inLab(t, func(l *lab) {
		l.Begin()
		l.add("web")
		l.Pass(time.Minute)
		changes, before := len(l.cloud.Changes()), l.cloud.Reads()
		l.Pass(20 * time.Minute)
		after := l.cloud.Reads()
		if n := after["Balancing"] - before["Balancing"]; n != 2 || after["Details"]-before["Details"] > 2 || after["Subnets"] != before["Subnets"] {
			t.Errorf("%v, then %v", before, after)
		}
		if more := l.verbs(changes); len(more) > 0 {
			t.Errorf("%v", more)
		}
	})
}

// All changes of Nodes that come together are one update of each target group.
func TestNodesComeAndGo(t *testing.T) {
	inLab(t, func(l *lab) {
		l.Begin()
		l.add("web")
		l.Pass(time.Minute)
		changes := len(l.cloud.Changes())
		for i := 3; i <= 40; i++ {
			l.node(i)
		}
		l.RemoveNode(nameOf(1))
		l.Pass(10 * time.Second)
		all := make([]int, 0, 40)
		for i := 2; i <= 40; i++ {
			all = append(all, i)
		}
		if got := l.verbs(changes); got[cloud.Register] != 1 || got[cloud.Deregister] != 1 || len(got) != 2 {
			t.Errorf("%v", got)
		}
		if got := len(l.cloud.Targets(cloudbalancer.BalancerName(uidOf("web")), 80)); got != len(all) {
			t.Errorf("%d targets", got)
		}
		l.ChangeNode(nameOf(2), func(n *corev1.Node) { n.Labels = map[string]string{ExcludeLabel: ""} })
		l.ChangeNode(nameOf(3), func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: leavingTaint, Effect: "NoSchedule"}} })
		l.ChangeNode(nameOf(4), func(n *corev1.Node) { n.Status.Conditions = nil }) // not ready, and stays
		l.Pass(10 * time.Second)
		if got := len(l.cloud.Targets(cloudbalancer.BalancerName(uidOf("web")), 80)); got != len(all)-2 {
			t.Errorf("%d targets", got)
		}
	})
}

// A Service that stops being a LoadBalancer loses its balancer, and one of another
// controller is left alone.
func TestOnlyOurServicesAreServed(t *testing.T) {
	class := func(name string) func(map[string]any) {
		return func(d map[string]any) { d["spec"].(map[string]any)["loadBalancerClass"] = name }
	}
	inLab(t, func(l *lab) {
		l.Begin()
		l.add("web")
		l.add("ours", class("tulle.net/nlb"))
		l.add("theirs", class("service.k8s.aws/nlb"))
		l.add("external", annotate("type", "external"))
		l.add("classic", func(d map[string]any) { delete(d["metadata"].(map[string]any), "annotations") })
		l.Pass(10 * time.Second)
		l.wantBalanced("web", 1, 2)
		l.wantBalanced("ours", 1, 2)
		for _, name := range []string{"theirs", "external", "classic"} {
			if l.finalized(name) || l.host(name) != "" {
				t.Errorf("%s: %v", name, l.API.Object(path(name)))
			}
		}
		for _, name := range []string{"web", "ours"} {
			l.change(name, func(d map[string]any) {
				d["spec"].(map[string]any)["type"] = "ClusterIP"
				delete(d["spec"].(map[string]any), "loadBalancerClass")
				delete(d, "status")
			})
		}
		l.Pass(time.Minute)
		l.wantNothing()
		if l.finalized("web") || l.finalized("ours") {
			t.Error("a finalizer is left")
		}
	})
}

// What a person changes in the cloud is changed back at the next comparison, and what does
// not concern the Service stays.
func TestDriftIsCorrected(t *testing.T) {
	inLab(t, func(l *lab) {
		l.Begin()
		l.add("web")
		l.Pass(10 * time.Second)
		all := l.cloud.All()
		l.cloud.Drop(all.Groups[0].ID)
		node := all.Security[len(all.Security)-1]
		foreign := cloud.Rule{Protocol: "tcp", From: 22, To: 22, Description: "ssh"}
		node.Rules = []cloud.Rule{foreign}
		l.cloud.Put(cloud.Balancing{Security: []cloud.SecurityGroup{node}})
		l.Pass(11 * time.Minute)
		l.wantBalanced("web", 1, 2)
		for _, s := range l.cloud.All().Security {
			if s.ID == node.ID && (len(s.Rules) != 2 || s.Rules[0] != foreign) {
				t.Errorf("%+v", s.Rules)
			}
		}
	})
}

// Lost answers of any change are found out by reading.
func TestLostAnswers(t *testing.T) {
	inLab(t, func(l *lab) {
		l.Begin()
		lost := make(map[cloud.BalancerVerb]bool)
		l.cloud.Do(func() {
			l.cloud.Lose = func(c cloud.BalancerChange) error {
				if lost[c.Verb] {
					return nil
				}
				lost[c.Verb] = true
				return &cloud.Error{Kind: cloud.Unavailable, Action: string(c.Verb), Text: "no answer"}
			}
		})
		l.add("web", annotate("cross-zone-load-balancing-enabled", "true"), annotate("proxy-protocol", "*"))
		l.Pass(3 * time.Minute)
		l.wantBalanced("web", 1, 2)
		l.change("web", func(d map[string]any) {
			d["spec"].(map[string]any)["ports"].([]any)[0].(map[string]any)["nodePort"] = int64(30081)
		})
		l.Pass(3 * time.Minute)
		l.wantBalanced("web", 1, 2)
		l.delete("web")
		l.Pass(5 * time.Minute)
		l.wantNothing()
		if l.API.Object(path("web")) != nil || len(lost) < 12 {
			t.Errorf("lost %v", lost)
		}
	})
}

// A Service whose creation got no answer keeps its finalizer until a later reading of the
// account shows what was made.
func TestUnansweredCreationIsNotLeftBehind(t *testing.T) {
	for _, verb := range []cloud.BalancerVerb{cloud.CreateBalancer, cloud.CreateGroup, cloud.CreateSecurityGroup} {
		t.Run(string(verb), func(t *testing.T) {
			inLab(t, func(l *lab) {
				l.Begin()
				down := &cloud.Error{Kind: cloud.Unavailable, Action: "any", Text: "no answer"}
				l.cloud.Do(func() {
					l.cloud.Lose = func(c cloud.BalancerChange) error {
						if c.Verb != verb {
							return nil
						}
						l.cloud.Unreadable = down
						return down
					}
					l.cloud.Fail = func(c cloud.BalancerChange) error {
						if c.Verb != verb {
							return &cloud.Error{Kind: cloud.Denied, Action: "any", Text: "denied"}
						}
						return nil
					}
				})
				if verb == cloud.CreateBalancer { // it needs a security group
					l.cloud.Do(func() { l.cloud.Fail = nil })
				}
				l.add("web")
				l.Pass(5 * time.Second)
				l.delete("web")
				l.Pass(time.Minute)
				if !l.finalized("web") {
					t.Error("the finalizer is gone before the account was read")
				}
				l.cloud.Do(func() { l.cloud.Unreadable, l.cloud.Lose, l.cloud.Fail = nil, nil, nil })
				l.Pass(5 * time.Minute)
				l.wantNothing()
				if l.API.Object(path("web")) != nil {
					t.Error("the Service is still there")
				}
			})
		})
	}
}

// After a restart, the tag with a Service's UID on any object shows that the Service was
// ours, whatever it says by now.
func TestRestartRecognizesOurServices(t *testing.T) {
	notOurs := annotate("type", "external")
	clusterIP := func(d map[string]any) {
		d["spec"].(map[string]any)["type"] = "ClusterIP"
		delete(d, "status")
	}
	for name, test := range map[string]struct {
		change func(map[string]any)
		first  func(l *lab) // before the change
	}{
		"annotation": {notOurs, func(*lab) {}},
		"type":       {clusterIP, func(*lab) {}},
		"a target group alone": {clusterIP, func(l *lab) {
			l.cloud.Drop(l.cloud.All().Balancers[0].ID)
			l.cloud.Drop(ownGroup(l))
		}},
		"a security group alone": {clusterIP, func(l *lab) {
			l.cloud.Drop(l.cloud.All().Balancers[0].ID)
			l.cloud.Drop(l.cloud.All().Groups[0].ID)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			inLab(t, func(l *lab) {
				l.Begin()
				l.add("web", func(d map[string]any) { d["spec"].(map[string]any)["loadBalancerClass"] = "tulle.net/nlb" })
				l.Pass(10 * time.Second)
				l.Kill()
				test.first(l)
				l.change("web", test.change)
				l.start()
				l.Begin()
				l.Pass(10 * time.Second)
				l.delete("web")
				l.Pass(time.Minute)
				if l.API.Object(path("web")) != nil {
					t.Errorf("%v", l.API.Object(path("web")))
				}
				all := l.cloud.All()
				if len(all.Balancers)+len(all.Groups) > 0 || len(all.Security) != 1 {
					t.Errorf("left: %+v", all)
				}
			}, func(o *Options) { o.Rules.Default = false })
		})
	}
}

// ownGroup returns the ID of the only security group that is not that of Nodes.
func ownGroup(l *lab) string {
	for _, s := range l.cloud.All().Security {
		if s.ID != cloudtest.NodeGroup {
			return s.ID
		}
	}
	return ""
}

// A finalizer of another controller's Service stays, and so does what the Service has.
func TestFinalizersOfOthersStay(t *testing.T) {
	inLab(t, func(l *lab) {
		l.Begin()
		l.add("theirs", annotate("type", "external"), func(d map[string]any) {
			d["metadata"].(map[string]any)["finalizers"] = []any{Finalizer}
		})
		l.Pass(10 * time.Second)
		l.crash()
		l.delete("theirs")
		l.Pass(time.Minute)
		if !l.finalized("theirs") || len(l.cloud.Changes()) > 0 {
			t.Errorf("%v, %v", l.API.Object(path("theirs")), l.verbs(0))
		}
	})
}

// A value that the cloud refuses costs no reading of the account, and neither do changes of
// the Service that ask for nothing else. What asks for another balancer is tried at once.
func TestRefusedValueCostsNoReading(t *testing.T) {
	inLab(t, func(l *lab) {
		tries := 0
		l.cloud.Do(func() {
			l.cloud.Fail = func(c cloud.BalancerChange) error {
				if c.Verb == cloud.SetBalancerAttributes {
					tries++
					return &cloud.Error{Kind: cloud.Refused, Action: "any", Text: "bad value"}
				}
				return nil
			}
		})
		l.Begin()
		l.add("web", annotate("cross-zone-load-balancing-enabled", "true"))
		for i := range 120 {
			l.Pass(time.Second)
			l.change("web", func(d map[string]any) {
				d["metadata"].(map[string]any)["labels"] = map[string]any{"n": fmt.Sprint(i)}
			})
		}
		if reads := l.cloud.Reads(); reads["Balancing"] != 1 || tries > 12 || tries < 4 {
			t.Errorf("%d tries, readings %v", tries, reads)
		}
		before := tries
		l.change("web", annotate("proxy-protocol", "*"))
		l.Pass(time.Second)
		if tries == before {
			t.Error("a change of the Service waits for the back-off")
		}
	})
}

// An instance that gets another security group is seen at the next comparison: the rules
// follow it.
func TestRulesFollowSecurityGroupsOfInstances(t *testing.T) {
	inLab(t, func(l *lab) {
		l.Begin()
		l.add("web")
		l.Pass(10 * time.Second)
		l.cloud.Put(cloud.Balancing{Security: []cloud.SecurityGroup{{ID: "sg-other", Name: "other", Network: "net-1"}}})
		for _, i := range []int{1, 2} {
			l.fleet.Change(nameOf(i), func(i *cloud.Instance) { i.Groups = []string{"sg-other"} })
		}
		l.Pass(11 * time.Minute)
		for _, s := range l.cloud.All().Security {
			if s.ID == "sg-other" && len(s.Rules) == 0 || s.ID == cloudtest.NodeGroup && len(s.Rules) > 0 {
				t.Errorf("%s has the rules %v", s.ID, s.Rules)
			}
		}
	})
}

// A security group of Nodes that does not exist is read once a minute, and named.
func TestMissingSecurityGroupBacksOff(t *testing.T) {
	inLab(t, func(l *lab) {
		l.cloud.Drop(cloudtest.NodeGroup)
		l.Begin()
		l.add("web")
		l.Pass(5 * time.Minute)
		if n := l.cloud.Reads()["SecurityGroups"]; n < 2 || n > 8 {
			t.Errorf("%d readings in five minutes", n)
		}
		l.WantWarning("web", "LoadBalancerSettings", cloudtest.NodeGroup, "does not exist")
		l.cloud.Put(cloud.Balancing{Security: []cloud.SecurityGroup{{ID: cloudtest.NodeGroup, Name: "nodes", Network: "net-1"}}})
		l.Pass(2 * time.Minute)
		for _, s := range l.cloud.All().Security {
			if s.ID == cloudtest.NodeGroup && len(s.Rules) == 0 {
				t.Error("it got no rules when it was there")
			}
		}
	})
}

// A Node that goes while another one has the same instance leaves it a target.
func TestTwoNodesOfOneInstance(t *testing.T) {
	inLab(t, func(l *lab) {
		l.Begin()
		l.add("web")
		l.Pass(10 * time.Second)
		n := apitest.SmallNode(1)
		n.Name, n.UID, n.ResourceVersion, n.Spec.ProviderID = "renamed", "uid-renamed", "", l.API.Node(nameOf(1)).Spec.ProviderID
		l.AddNode(n)
		l.Pass(time.Second)
		l.RemoveNode(nameOf(1))
		l.Pass(10 * time.Second)
		known := 0
		l.Do(func() { known = len(l.c.instances) })
		if known != 2 {
			t.Errorf("%d instances are known", known)
		}
		l.wantBalanced("web", 1, 2)
	})
}

// TestAnExcludedNodeIsNotLookedUp: a stopped instance is looked up again and again while its Node
// is to be a target, not while the Node is excluded, and again once it is not.
func TestAnExcludedNodeIsNotLookedUp(t *testing.T) {
	inLab(t, func(l *lab) {
		l.Begin()
		l.add("web")
		lookups := func() int {
			before := len(l.fleet.Calls())
			l.Pass(30 * time.Minute)
			return len(l.fleet.Calls()) - before
		}
		l.fleet.SetState(nameOf(2), cloud.Stopped)
		if n := lookups(); n < 20 {
			t.Errorf("%d lookups in half an hour", n)
		}
		l.ChangeNode(nameOf(2), func(n *corev1.Node) { n.Labels[ExcludeLabel] = "true" })
		l.Pass(2 * time.Minute)
		if n := lookups(); n > 3 { // those of the account
			t.Errorf("%d lookups in half an hour while the Node is excluded", n)
		}
		l.wantBalanced("web", 1)
		l.fleet.SetState(nameOf(2), cloud.Running)
		l.ChangeNode(nameOf(2), func(n *corev1.Node) { delete(n.Labels, ExcludeLabel) })
		l.Pass(5 * time.Second)
		l.wantBalanced("web", 1, 2)
	})
}

// A preview shows every change, in order, and makes none.
func TestPreviewShowsEverything(t *testing.T) {
	inLab(t, func(l *lab) {
		l.add("web")
		l.Engine.Follow()
		l.Pass(10 * time.Second)
		writes, err := l.Engine.PlanAll(l.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(writes) != 8 || len(l.cloud.Changes()) != 0 {
			t.Errorf("%d writes, %d changes", len(writes), len(l.cloud.Changes()))
		}
		for _, w := range writes {
			if w.Cloud && (w.Summary == "" || w.After == "") {
				t.Errorf("%+v", w)
			}
		}
	}, func(o *Options) { o.DryRun = true })
}

// The report and the explanation say how far each Service is, and the fix.
func TestReportSaysHowFarServicesAre(t *testing.T) {
	inLab(t, func(l *lab) {
		l.Begin()
		l.add("web")
		l.add("wrong", annotate("scheme", "public"))
		l.add("theirs", annotate("type", "external"))
		l.Pass(10 * time.Second)
		var r Report
		l.Do(func() { r = l.c.Report() })
		if r.Counts[Balanced] != 1 || r.Counts[Invalid] != 1 || r.Counts[Other] != 1 || r.Balancers != 1 || r.Quota.Balancers != 50 || len(r.Leftovers) != 0 {
			t.Errorf("%+v", r)
		}
		for name, ok := range map[string]bool{"default/web": true, "default/wrong": false, "worker-1": true} {
			all, err := l.Engine.Explain(l.Context(), name)
			if err != nil || len(all) != 1 || all[0].Lines[0].OK != ok {
				t.Errorf("%s: %v, %+v", name, err, all)
			}
		}
	})
}
