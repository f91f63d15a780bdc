package cloudipam

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tulle-net/tulle/pkg/cloud/cloudtest"
	"github.com/tulle-net/tulle/pkg/controller/labtest"
	"github.com/tulle-net/tulle/pkg/ipam"
	"github.com/tulle-net/tulle/subnet"
)

// reading are the modes in which the cloud assigns ranges.
var reading = []Mode{CloudAllocator, FromCloud}

func TestWritesTheAliasAndThenTheCondition(t *testing.T) {
	for _, mode := range reading {
		inLab(t, mode, func(l *lab) {
			l.cloud.Add("worker-1", "10.4.7.0/24", "10.9.0.0/28")
			l.AddNode(node1("worker-1"))
			l.Begin()
			l.Pass(5 * time.Second)
			l.want("worker-1", "10.4.7.0/24")
			if n := l.Patches("/worker-1"); n != 2 {
				t.Errorf("%d writes", n)
			}
			if l.cloud.Reads() != 1 || l.cloud.Changes() != 0 {
				t.Errorf("%d lookups, %d changes", l.cloud.Reads(), l.cloud.Changes())
			}
			if r := l.report(); r.Waiting != 0 || r.Retrying != 0 || len(r.Findings) > 0 {
				t.Errorf("%+v", r)
			}
		})
	}
}

// TestConditionWaitsForPodCIDRs: the condition stays until the Node has its podCIDRs.
func TestConditionWaitsForPodCIDRs(t *testing.T) {
	inLab(t, CloudAllocator, func(l *lab) {
		l.cloud.Add("worker-1", "10.4.7.0/24")
		l.AddNode(node1("worker-1"))
		l.API.Do(func() { l.API.Refuse = refuse("PATCH", 500) })
		l.Begin()
		l.Pass(time.Minute)
		l.wantNone("worker-1")
		if n := l.Patches("/worker-1/status"); n > 0 {
			t.Errorf("%d writes of the status", n)
		}
		l.API.Do(func() { l.API.Refuse = nil })
		l.Pass(2 * time.Minute)
		l.want("worker-1", "10.4.7.0/24")
	})
}

// TestForeignConditionStays: the controller does not change another program's condition, like
// tulled's when its network does not work.
func TestForeignConditionStays(t *testing.T) {
	for reason, want := range map[string]string{"TulleNotReady": "True TulleNotReady", "FlannelIsUp": "True FlannelIsUp", "": "False RouteCreated"} {
		inLab(t, CloudAllocator, func(l *lab) {
			l.cloud.Add("worker-1", "10.4.7.0/24")
			l.AddNode(node1("worker-1"), func(n *corev1.Node) {
				last := len(n.Status.Conditions) - 1
				if n.Status.Conditions[last].Reason = reason; reason == "" {
					n.Status.Conditions = n.Status.Conditions[:last]
				}
			})
			l.Begin()
			l.Pass(5 * time.Second)
			if got := l.Unavailable("worker-1"); got != want || l.API.Node("worker-1").Spec.PodCIDR != "10.4.7.0/24" {
				t.Errorf("%q: %s, %s", reason, got, l.API.Node("worker-1").Spec.PodCIDR)
			}
			if n := len(l.API.Node("worker-1").Status.Conditions); n != 2 {
				t.Errorf("%d conditions", n)
			}
		})
	}
}

func TestManyNodesAreOneLookup(t *testing.T) {
	inLab(t, CloudAllocator, func(l *lab) {
		for i, name := range labtest.Names(200) {
			l.cloud.Add(name, fmt.Sprintf("10.4.%d.0/24", i))
			l.AddNode(node1(name))
		}
		l.Begin()
		l.Pass(10 * time.Second)
		for i, name := range labtest.Names(200) {
			l.want(name, fmt.Sprintf("10.4.%d.0/24", i))
		}
		if l.cloud.Reads() != 1 {
			t.Errorf("%d lookups", l.cloud.Reads())
		}
		l.wantDistinct(labtest.Names(200)...)
		// CloudAllocator sends no requests for a settled cluster.
		l.Pass(time.Hour)
		if l.cloud.Reads() != 1 {
			t.Errorf("%d lookups after an hour", l.cloud.Reads())
		}
	})
}

func TestNodeGetsBothFamiliesOrNone(t *testing.T) {
	for _, test := range []struct {
		families []subnet.Family
		want     []string
	}{
		{[]subnet.Family{subnet.IPv4, subnet.IPv6}, []string{"10.4.7.0/24", "fd20:1:2:3:4:5::/112"}},
		{[]subnet.Family{subnet.IPv6, subnet.IPv4}, []string{"fd20:1:2:3:4:5::/112", "10.4.7.0/24"}},
		{[]subnet.Family{subnet.IPv6}, []string{"fd20:1:2:3:4:5::/112"}},
	} {
		inLab(t, CloudAllocator, func(l *lab) {
			l.cloud.Add("worker-1", "10.4.7.0/24")
			l.AddNode(node1("worker-1"))
			l.Begin()
			l.Pass(5 * time.Second)
			l.wantNone("worker-1")
			l.WantEvent("worker-1", notAvailable, "no IPv6 range for pods")
			l.cloud.SetIPv6("worker-1", "fd20:1:2:3:4:5::/112")
			l.Pass(2 * time.Minute)
			l.want("worker-1", test.want...)
		}, func(o *Options) { o.Families = test.families })
	}
}

func TestLateAliasIsFound(t *testing.T) {
	inLab(t, CloudAllocator, func(l *lab) {
		l.AddNode(node1("worker-1"), func(n *corev1.Node) { n.Spec.ProviderID = "" })
		l.Begin()
		l.Pass(3 * time.Second)
		l.WantEvent("worker-1", notAvailable, "no providerID", "node controller")
		if l.cloud.Reads() > 0 {
			t.Errorf("%d lookups", l.cloud.Reads())
		}
		l.ChangeNode("worker-1", func(n *corev1.Node) { n.Spec.ProviderID = cloudtest.ID("worker-1") })
		l.Pass(3 * time.Second)
		if got := l.codes("worker-1"); !slices.Equal(got, []ipam.Code{NoInstance}) {
			t.Errorf("%v", got)
		}
		l.cloud.Add("worker-1")
		l.Pass(time.Minute)
		if got := l.codes("worker-1"); !slices.Equal(got, []ipam.Code{NoAlias}) {
			t.Errorf("%v", got)
		}
		reads := l.cloud.Reads()
		l.Pass(time.Hour)
		if more := l.cloud.Reads() - reads; more < 59 || more > 125 {
			t.Errorf("%d lookups in an hour", more)
		}
		l.cloud.Add("worker-1", "10.4.7.0/24")
		l.Pass(time.Minute + 5*time.Second)
		l.want("worker-1", "10.4.7.0/24")
	})
}

func TestOnlyAliasesOfTheSecondaryRangeCount(t *testing.T) {
	inLab(t, CloudAllocator, func(l *lab) {
		l.cloud.Add("worker-1", "10.4.7.0/24")
		l.AddNode(node1("worker-1"))
		l.Begin()
		l.Pass(3 * time.Second)
		l.wantNone("worker-1")
		l.WantEvent("worker-1", notAvailable, "no alias range for pods of the secondary range another")
	}, func(o *Options) { o.Secondary = "another" })
}

// TestInstanceOfAnotherNameDoesNotCount: a kubelet chooses its providerID, and must not get
// another instance's range.
func TestInstanceOfAnotherNameDoesNotCount(t *testing.T) {
	for _, mode := range []Mode{CloudAllocator, FromCloud, FromCluster} {
		inLab(t, mode, func(l *lab) {
			l.cloud.Add("database", "10.64.1.0/24")
			l.cloud.Add("worker-2", "10.64.2.0/24")
			l.AddNode(node1("worker-1"), func(n *corev1.Node) { n.Spec.ProviderID = cloudtest.ID("database") })
			l.AddNode(node1("worker-2.c.my-project-1.internal"), func(n *corev1.Node) { n.Spec.ProviderID = cloudtest.ID("worker-2") })
			l.Begin()
			l.Pass(time.Minute)
			l.wantNone("worker-1")
			l.want("worker-2.c.my-project-1.internal", "10.64.2.0/24")
			l.WantEvent("worker-1", notAvailable, "belongs to the instance database", "re-create the Node")
			if l.cloud.Changes() > 0 || !slices.Equal(l.cloud.Aliases("database"), []string{"10.64.1.0/24"}) {
				t.Errorf("%d changes, %q", l.cloud.Changes(), l.cloud.Aliases("database"))
			}
		})
	}
}

// TestOneOfTwoNodesGetsTheRange: if two Nodes name one instance, one of them gets its range.
func TestOneOfTwoNodesGetsTheRange(t *testing.T) {
	for _, mode := range []Mode{CloudAllocator, FromCloud, FromCluster} {
		inLab(t, mode, func(l *lab) {
			l.cloud.Add("worker-1", "10.64.1.0/24")
			l.AddNode(node1("worker-1", "10.64.1.0/24"))
			l.Begin()
			l.Pass(3 * time.Second)
			l.AddNode(node1("worker-1.example.org"), func(n *corev1.Node) { n.Spec.ProviderID = cloudtest.ID("worker-1") })
			l.Pass(3 * time.Second)
			l.want("worker-1", "10.64.1.0/24")
			l.wantNone("worker-1.example.org")
			l.WantEvent("worker-1.example.org", mismatch, "a podCIDR of Node worker-1")
			l.RemoveNode("worker-1")
			l.Pass(2 * time.Minute)
			l.want("worker-1.example.org", "10.64.1.0/24")
		})
	}
}

// TestAnotherRangeMendsASharedOne: a Node whose instance has the range of another Node gets
// podCIDRs once the instance has another range.
func TestAnotherRangeMendsASharedOne(t *testing.T) {
	for _, mode := range []Mode{CloudAllocator, FromCloud} {
		inLab(t, mode, func(l *lab) {
			l.cloud.Add("worker-1", "10.64.1.0/24")
			l.cloud.Add("worker-2", "10.64.1.0/24")
			l.AddNode(node1("worker-1", "10.64.1.0/24"))
			l.AddNode(node1("worker-2"))
			l.Begin()
			l.Pass(3 * time.Second)
			l.wantNone("worker-2")
			l.cloud.Add("worker-2", "10.64.2.0/24")
			l.Pass(verifyInterval + 3*time.Second)
			l.want("worker-2", "10.64.2.0/24")
		})
	}
}

func TestMismatchIsOnlyReported(t *testing.T) {
	for _, mode := range []Mode{FromCloud, FromCluster} {
		inLab(t, mode, func(l *lab) {
			l.cloud.Add("worker-1", "10.64.1.0/24")
			l.AddNode(node1("worker-1", "10.64.1.0/24"))
			l.Begin()
			l.Pass(3 * time.Second)
			l.want("worker-1", "10.64.1.0/24")
			l.cloud.Add("worker-1", "10.64.2.0/24")
			l.Pass(verifyInterval + 2*time.Second)
			l.want("worker-1", "10.64.1.0/24")
			l.WantEvent("worker-1", mismatch, "10.64.1.0/24", "10.64.2.0/24", "delete and re-create the Node")
			if got := l.codes("worker-1"); !slices.Equal(got, []ipam.Code{Mismatch}) || l.cloud.Changes() > 0 {
				t.Errorf("%v, %d changes", got, l.cloud.Changes())
			}
			l.cloud.Add("worker-1", "10.64.1.0/24")
			l.Pass(verifyInterval + 2*time.Second)
			if got := l.codes("worker-1"); len(got) > 0 {
				t.Errorf("%v", got)
			}
		})
	}
}

// TestUnreadableInstanceDelaysNoOther: an unreadable instance does not delay other Nodes.
func TestUnreadableInstanceDelaysNoOther(t *testing.T) {
	inLab(t, CloudAllocator, func(l *lab) {
		l.cloud.Add("worker-1", "10.4.1.0/24")
		l.cloud.Add("worker-2", "10.4.2.0/24")
		l.cloud.Do(func() { l.cloud.Unreadable = map[string]bool{"worker-1": true} })
		l.AddNode(node1("worker-1"))
		l.AddNode(node1("worker-2"))
		l.Begin()
		l.Pass(time.Minute)
		l.wantNone("worker-1")
		l.want("worker-2", "10.4.2.0/24")
		s, _ := l.Engine.State(l.Context())
		if f := s.Feeds[len(s.Feeds)-1]; f.What != "instances" || !f.Listed || f.Problem == "" {
			t.Errorf("%+v", f)
		}
		l.cloud.Do(func() { l.cloud.Unreadable = nil })
		l.Pass(time.Minute + 5*time.Second)
		l.want("worker-1", "10.4.1.0/24")
	})
}

// TestStandbySendsNoRequestsToTheCloud: a standby replica sends the cloud no requests, and is
// ready.
func TestStandbySendsNoRequestsToTheCloud(t *testing.T) {
	inLab(t, FromCloud, func(l *lab) {
		l.cloud.Add("worker-1", "10.4.1.0/24")
		l.AddNode(node1("worker-1"))
		l.Engine.Follow()
		l.Pass(time.Hour)
		s, _ := l.Engine.State(l.Context())
		if all, waiting := s.Listed(); !all || l.cloud.Reads() > 0 {
			t.Errorf("%q, %d lookups", waiting, l.cloud.Reads())
		}
		l.Begin()
		l.want("worker-1", "10.4.1.0/24")
	})
}

// TestDeletingNodesAreLeftAlone: a Node that is being deleted keeps its podCIDRs, and gets no
// new ones.
func TestDeletingNodesAreLeftAlone(t *testing.T) {
	inLab(t, FromCluster, func(l *lab) {
		l.cloud.Add("worker-1")
		l.AddNode(node1("worker-1"), func(n *corev1.Node) {
			now := n.CreationTimestamp
			n.DeletionTimestamp, n.Finalizers = &now, []string{"example.org/x"}
		})
		l.Begin()
		l.Pass(time.Minute)
		l.wantNone("worker-1")
		if l.cloud.Reads()+l.cloud.Changes() > 0 {
			t.Errorf("%d lookups, %d changes", l.cloud.Reads(), l.cloud.Changes())
		}
	})
}

// TestLateWriteToANodeOfTheSameNameIsRefused: the watch shows another Node of the same name
// while a write to the old one is in flight.
func TestLateWriteToANodeOfTheSameNameIsRefused(t *testing.T) {
	inLab(t, CloudAllocator, func(l *lab) {
		l.cloud.Add("worker-1", "10.4.1.0/24")
		l.AddNode(node1("worker-1"))
		held := make(chan struct{})
		l.API.Do(func() { l.API.Hold = hold("PATCH", held) })
		l.Begin()
		l.Pass(time.Second)
		l.RemoveNode("worker-1")
		l.cloud.Add("worker-1", "10.4.2.0/24")
		l.AddNode(node1("worker-1"), func(n *corev1.Node) { n.UID = "another" })
		l.Pass(time.Second)
		l.API.Do(func() { l.API.Hold = nil })
		close(held)
		l.Pass(2 * time.Minute)
		l.want("worker-1", "10.4.2.0/24")
	})
}

// TestEventsOlderThanAnAnswerCauseNoWrite: an event that is older than the answer to a write
// causes no write, which the server would refuse. A list that began after the write counts,
// also after a restore from a backup.
func TestEventsOlderThanAnAnswerCauseNoWrite(t *testing.T) {
	inLab(t, CloudAllocator, func(l *lab) {
		l.cloud.Add("a", "10.64.7.0/24")
		l.AddNode(node1("a"))
		l.Begin()
		l.Pass(time.Minute)
		l.want("a", "10.64.7.0/24")
		writes := l.API.Asked("PATCH")
		if writes != 2 {
			t.Errorf("%d writes of podCIDRs and the condition", writes)
		}
		var kept, stale node
		l.Do(func() {
			kept = *l.c.nodes["a"]
			stale = kept
			stale.cidrs, stale.unrouted, stale.version, stale.revision = nil, true, "1", 1
			l.c.set("a", stale)
			l.c.list(kept.written, map[string]node{"a": stale})
		})
		l.Pass(time.Minute)
		if n := l.API.Asked("PATCH"); n != writes || l.report().Waiting != 0 {
			t.Errorf("%d more writes, %d Nodes wait", n-writes, l.report().Waiting)
		}
		l.Do(func() { l.c.list(kept.written+1, map[string]node{"a": stale}) })
		if n := l.report().Waiting; n != 1 {
			t.Errorf("%d Nodes wait after a restore, want 1", n)
		}
	})
}
