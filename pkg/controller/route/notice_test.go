package route

import (
	"bytes"
	"errors"
	"net/netip"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/cloudroute"
	"github.com/tulle-net/tulle/pkg/controller"
	"github.com/tulle-net/tulle/pkg/kube"
	"github.com/tulle-net/tulle/subnet"
)

// usesNotices makes a Node one whose daemon uses the backend cloud.
func usesNotices(n *corev1.Node) {
	n.Annotations = map[string]string{"flannel.alpha.coreos.com/backend-type": "cloud", "flannel.alpha.coreos.com/public-ip": "192.0.2.1"}
}

// wantNotice fails unless a Node has this notice.
func (l *lab) wantNotice(i int, want string) {
	l.Helper()
	if got := l.API.Node(nameOf(i)).Annotations[subnet.NoticeAnnotation]; got != want {
		l.Errorf("the notice of %s is %q, want %q", nameOf(i), got, want)
	}
}

// TestNoticesFollowTheRoutes: a Node gets its notice after its routes, and loses it when a route
// is missing. Nodes with other backends get no notice, and cost no write.
func TestNoticesFollowTheRoutes(t *testing.T) {
	inLab(t, func(l *lab) {
		l.add(1, usesNotices)
		l.add(2)
		l.Begin()
		l.Pass(10 * time.Second)
		l.wantRouted(1, 2)
		l.wantNotice(1, "net-1 192.0.2.1 10.4.1.0/24")
		l.wantNotice(2, "")
		writes := l.API.Asked("PATCH ")
		l.Pass(10 * time.Minute)
		if n := l.API.Asked("PATCH ") - writes; n != 0 {
			t.Errorf("%d writes while nothing changes", n)
		}

		// Another program replaces the route.
		l.cloud.Delete("rtb-b", cidrOf(1))
		l.cloud.Put("rtb-b", cloud.Route{Destination: netip.MustParsePrefix(cidrOf(1)), Kind: cloud.ToGateway, Target: "vgw-1"})
		l.Pass(time.Minute)
		l.wantNotice(1, "net-1 192.0.2.1")
		l.cloud.Delete("rtb-b", cidrOf(1))
		l.Pass(time.Minute)
		l.wantNotice(1, "net-1 192.0.2.1 10.4.1.0/24")

		// While the cloud does not answer, the notice stays.
		l.cloud.Do(func() { l.cloud.Unreadable = errors.New("unavailable") })
		l.crash()
		l.Pass(5 * time.Minute)
		l.wantNotice(1, "net-1 192.0.2.1 10.4.1.0/24")
		l.cloud.Do(func() { l.cloud.Unreadable = nil })
		l.Pass(2 * time.Minute)
		l.wantNotice(1, "net-1 192.0.2.1 10.4.1.0/24")

		// Another program writes a notice, and then the daemon changes to another backend.
		l.ChangeNode(nameOf(1), func(n *corev1.Node) { n.Annotations[subnet.NoticeAnnotation] = "net-1 192.0.2.1 10.4.9.0/24" })
		l.Pass(5 * time.Second)
		l.wantNotice(1, "net-1 192.0.2.1 10.4.1.0/24")
		l.ChangeNode(nameOf(1), func(n *corev1.Node) { n.Annotations["flannel.alpha.coreos.com/backend-type"] = "vxlan" })
		l.Pass(5 * time.Second)
		l.wantNotice(1, "")
	})
}

// TestNoticeGoesWithTheInstance: a Node that gets another instance loses its notice at once, even
// if the lookup of that instance fails.
func TestNoticeGoesWithTheInstance(t *testing.T) {
	inLab(t, func(l *lab) {
		l.add(1, usesNotices)
		l.Begin()
		l.Pass(10 * time.Second)
		l.wantNotice(1, "net-1 192.0.2.1 10.4.1.0/24")
		id := l.fleet.Launch("other", func(i *cloud.Instance) { i.Forwards = true })
		l.fleet.Do(func() { l.fleet.Revoked = true })
		l.ChangeNode(nameOf(1), func(n *corev1.Node) { n.Spec.ProviderID = id })
		l.Pass(2 * time.Second)
		l.wantNotice(1, "")
		l.fleet.Do(func() { l.fleet.Revoked = false })
		l.Pass(2 * time.Minute)
		l.wantNotice(1, "net-1 192.0.2.1 10.4.1.0/24")
	})
}

// TestNoticeIsWithdrawnBeforeTheConditionIsSet: a wrong notice misleads peers, so its withdrawal
// comes before the write of the Node's condition.
func TestNoticeIsWithdrawnBeforeTheConditionIsSet(t *testing.T) {
	inLab(t, func(l *lab) {
		l.add(1, usesNotices)
		l.Begin()
		l.Pass(10 * time.Second)
		l.ChangeNode(nameOf(1), func(n *corev1.Node) {
			n.Annotations[subnet.NoticeAnnotation] = "net-1 192.0.2.1 10.4.9.0/24"
			n.Status.Conditions = n.Status.Conditions[:len(n.Status.Conditions)-1]
		})
		l.Pass(settleTime / 2)
		l.wantNotice(1, "net-1 192.0.2.1 10.4.1.0/24")
		if got := l.Unavailable(nameOf(1)); got == routed {
			t.Error("the condition was set first")
		}
		l.Pass(2 * settleTime)
		l.wantRouted(1)
	})
}

// TestLongNoticeIsNotKept: the controller does not keep an annotation that is too long to be a
// notice.
func TestLongNoticeIsNotKept(t *testing.T) {
	_, n := keep(&kube.Node{Annotations: []kube.Annotation{{Key: []byte(subnet.NoticeAnnotation), Value: bytes.Repeat([]byte("v"), 200<<10)}}})
	if _, err := subnet.ParseNotice(n.Notice); err == nil || n.Notice == "" || len(n.Notice) > 20 {
		t.Errorf("%d bytes are kept: %.50q, %v", len(n.Notice), n.Notice, err)
	}
}

// leased returns a Controller of leases that has read the notices, but no tables and no
// instances.
func leased(stored map[string]string) *Controller {
	return &Controller{
		options: Options{Nodes: Leases{}}, book: cloudroute.New(cloudroute.Options{}), stored: stored, notices: poll{known: true},
		nodes: make(map[string]*node), waiting: make(map[string]bool), inFlight: make(map[string]bool), sending: make(map[string]string),
		lookingUp: make(map[string][]string), instances: controller.NewSchedule(), steps: controller.NewSchedule(),
	}
}

// TestNoticeGoesWithTheHolder: a lease that gets another holder loses its notice before the
// lookup of the new instance.
func TestNoticeGoesWithTheHolder(t *testing.T) {
	const key, text = "10.5.1.0-24", "vpc-1 192.0.2.1 10.5.1.0/24"
	holder := func(uid, address string) (n Node) {
		n.Name, n.UID, n.Ranges, n.ReadsNotices = key, uid, []string{"10.5.1.0/24"}, true
		n.ProviderID, n.PublicIP[subnet.IPv4] = address, netip.MustParseAddr(address)
		return n
	}
	now := time.Now()
	c := leased(map[string]string{key: ""})
	c.set(key, holder("a", "192.0.2.1"))
	c.stored[key] = text
	if w, ok := c.planNotice(key, now, true); ok {
		t.Errorf("%s, of the holder that the notice is about", w.Summary)
	}
	c.set(key, holder("b", "192.0.2.1"))
	if w, ok := c.planNotice(key, now, true); !ok || w.After != "" {
		t.Errorf("%q, %t, of a lease with another identity", w.After, ok)
	}

	// The holder has changed while no controller ran.
	c = leased(nil)
	c.set(key, holder("b", "192.0.2.2"))
	c.stored = map[string]string{key: text}
	if w, ok := c.planNotice(key, now, true); !ok || w.After != "" {
		t.Errorf("%q, %t, of a notice about another host", w.After, ok)
	}
}

// TestFailedNoticeIsWrittenAgain: a failed write of a notice may have been applied, so the
// controller repeats it.
func TestFailedNoticeIsWrittenAgain(t *testing.T) {
	const key = "10.5.1.0-24"
	for _, c := range []struct {
		err  error
		want bool
	}{{errors.New("timeout"), true}, {controller.ErrNotMade, false}} {
		in := leased(make(map[string]string))
		in.inFlight[key], in.sending[key] = true, "vpc-1 192.0.2.1"
		in.nodeWritten(controller.Ref{Name: key}, time.Now(), c.err) // of a lease that is gone by now
		if w, ok := in.planNotice(key, time.Now(), true); ok != c.want || w.After != "" {
			t.Errorf("%v: %q, %t", c.err, w.After, ok)
		}
	}
}
