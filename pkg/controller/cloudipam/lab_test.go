package cloudipam

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tulle-net/tulle/pkg/cloud/cloudtest"
	"github.com/tulle-net/tulle/pkg/controller"
	"github.com/tulle-net/tulle/pkg/controller/labtest"
	"github.com/tulle-net/tulle/pkg/controller/nodeipam"
	"github.com/tulle-net/tulle/pkg/ipam"
	"github.com/tulle-net/tulle/pkg/kube/apitest"
	"github.com/tulle-net/tulle/subnet"
)

// lab is an API server, a cloud and a controller.
type lab struct {
	*labtest.Lab
	cloud *cloudtest.Cloud
	c     *Controller
}

// pool returns the pool of FromCluster: eight blocks.
func pool() *ipam.Pool {
	p := ipam.Pool{Name: "cluster-cidr", Grow: "use a larger range"}
	p.Ranges[subnet.IPv4], p.Bits[subnet.IPv4] = []netip.Prefix{netip.MustParsePrefix("10.64.0.0/21")}, 24
	return &p
}

// inLab runs a test with a controller of a mode.
func inLab(t *testing.T, mode Mode, test func(l *lab), more ...func(*Options)) {
	t.Helper()
	labtest.Run(t, func(in *labtest.Lab) {
		l := &lab{Lab: in, cloud: cloudtest.New()}
		o := Options{Client: l.Client, Cloud: l.cloud, Mode: mode, Families: []subnet.Family{subnet.IPv4}}
		if mode == FromCluster {
			o.Pool, o.Secondary = pool(), cloudtest.Secondary
		}
		for _, f := range more {
			f(&o)
		}
		l.Start(controller.Options{}, func(e *controller.Engine) {
			o.Event = e.Event
			var err error
			if l.c, err = New(e, o); err != nil {
				l.Fatal(err)
			}
		})
		test(l)
	})
}

// node1 returns a Node, as a cloud's node controller registers it.
func node1(name string, cidrs ...string) *corev1.Node {
	n := apitest.SmallNode(1)
	n.Name, n.UID, n.ResourceVersion = name, types.UID("uid-"+name), ""
	n.Spec.ProviderID, n.Spec.PodCIDR, n.Spec.PodCIDRs, n.Annotations = cloudtest.ID(name), "", cidrs, nil
	if len(cidrs) > 0 {
		n.Spec.PodCIDR = cidrs[0]
	}
	n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: "NetworkUnavailable", Status: "True", Reason: "NoRouteCreated"})
	return n
}

// want fails unless a Node and its instance have these ranges, and the Node is routed.
func (l *lab) want(name string, cidrs ...string) {
	l.Helper()
	if got := l.API.Node(name).Spec.PodCIDRs; !slices.Equal(got, cidrs) {
		l.Errorf("%s has %q, want %q", name, got, cidrs)
	}
	if got := l.Unavailable(name); got != "False RouteCreated" {
		l.Errorf("%s: NetworkUnavailable is %s", name, got)
	}
}

// wantNone fails unless a Node has no podCIDRs and waits for its route.
func (l *lab) wantNone(name string) {
	l.Helper()
	if got := l.API.Node(name).Spec.PodCIDRs; len(got) > 0 {
		l.Errorf("%s has %q", name, got)
	}
	if got := l.Unavailable(name); got != "True NoRouteCreated" {
		l.Errorf("%s: NetworkUnavailable is %s", name, got)
	}
}

// report returns what the controller knows. The Nodes that wait are counted again.
func (l *lab) report() (r nodeipam.Report) {
	l.Helper()
	waiting := 0
	l.Do(func() {
		r = l.c.Report(time.Now())
		for _, n := range l.c.nodes {
			if len(n.cidrs) == 0 && !n.deleting {
				waiting++
			}
		}
	})
	if r.Waiting != waiting {
		l.Errorf("%d Nodes wait, and %d are counted", waiting, r.Waiting)
	}
	return r
}

// codes returns the codes of a Node's findings.
func (l *lab) codes(name string) (codes []ipam.Code) {
	l.Helper()
	for _, f := range l.report().Findings {
		if f.Node == name {
			codes = append(codes, f.Code)
		}
	}
	return codes
}

// wantDistinct fails if two Nodes have the same block, or a Node has a block that its instance
// lacks.
func (l *lab) wantDistinct(names ...string) {
	l.Helper()
	owners := make(map[string]string)
	for _, name := range names {
		for _, cidr := range l.API.Node(name).Spec.PodCIDRs {
			if other := owners[cidr]; other != "" {
				l.Errorf("%s and %s have %s", name, other, cidr)
			}
			owners[cidr] = name
			if !slices.Contains(l.cloud.Aliases(name), cidr) {
				l.Errorf("%s has %s, its instance %q", name, cidr, l.cloud.Aliases(name))
			}
		}
	}
}

// refuse refuses requests of a method.
func refuse(method string, code int32) func(*http.Request) *metav1.Status {
	return func(r *http.Request) *metav1.Status {
		if r.Method != method || strings.HasPrefix(r.URL.Path, "/apis") {
			return nil
		}
		return apitest.Refusal(code, "no")
	}
}

// hold holds requests of a method until a channel is closed.
func hold(method string, until <-chan struct{}) func(*http.Request) <-chan struct{} {
	return func(r *http.Request) <-chan struct{} {
		if r.Method != method {
			return nil
		}
		return until
	}
}
