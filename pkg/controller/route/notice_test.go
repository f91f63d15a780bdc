package route

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/subnet"
)

// usesNotices makes a Node one whose daemon uses the backend cloud.
func usesNotices(n *corev1.Node) {
	n.Annotations = map[string]string{"flannel.alpha.coreos.com/backend-type": "cloud"}
}

// wantNotice fails unless a Node has this notice.
func (l *lab) wantNotice(i int, want string) {
	l.Helper()
	if got := l.API.Node(nameOf(i)).Annotations[subnet.NoticeAnnotation]; got != want {
		l.Errorf("the notice of %s is %q, want %q", nameOf(i), got, want)
	}
}

// A Node's notice says that its routes are in place after they are, and is withdrawn when
// they are not. Nodes with other backends have none, and cost no write.
func TestNoticesFollowTheRoutes(t *testing.T) {
	inLab(t, func(l *lab) {
		l.add(1, usesNotices)
		l.add(2)
		l.Begin()
		l.Pass(10 * time.Second)
		l.wantRouted(1, 2)
		l.wantNotice(1, "net-1 10.4.1.0/24")
		l.wantNotice(2, "")
		writes := l.API.Asked("PATCH ")
		l.Pass(10 * time.Minute)
		if n := l.API.Asked("PATCH ") - writes; n != 0 {
			t.Errorf("%d writes while nothing changes", n)
		}

		// A route that another one has taken.
		l.cloud.Delete("rtb-b", cidrOf(1))
		l.cloud.Put("rtb-b", cloud.Route{Destination: netip.MustParsePrefix(cidrOf(1)), Kind: cloud.ToGateway, Target: "vgw-1"})
		l.Pass(time.Minute)
		l.wantNotice(1, "net-1")
		l.cloud.Delete("rtb-b", cidrOf(1))
		l.Pass(time.Minute)
		l.wantNotice(1, "net-1 10.4.1.0/24")

		// A cloud that does not answer changes nothing.
		l.cloud.Do(func() { l.cloud.Unreadable = errors.New("unavailable") })
		l.crash()
		l.Pass(5 * time.Minute)
		l.wantNotice(1, "net-1 10.4.1.0/24")
		l.cloud.Do(func() { l.cloud.Unreadable = nil })
		l.Pass(2 * time.Minute)
		l.wantNotice(1, "net-1 10.4.1.0/24")

		// A notice that another program wrote, and a daemon that uses another backend.
		l.ChangeNode(nameOf(1), func(n *corev1.Node) { n.Annotations[subnet.NoticeAnnotation] = "net-1 10.4.9.0/24" })
		l.Pass(5 * time.Second)
		l.wantNotice(1, "net-1 10.4.1.0/24")
		l.ChangeNode(nameOf(1), func(n *corev1.Node) { n.Annotations["flannel.alpha.coreos.com/backend-type"] = "vxlan" })
		l.Pass(5 * time.Second)
		l.wantNotice(1, "")
	})
}

// A Node that gets another instance loses its notice at once, although the cloud does not
// tell what that instance is.
func TestNoticeGoesWithTheInstance(t *testing.T) {
	inLab(t, func(l *lab) {
		l.add(1, usesNotices)
		l.Begin()
		l.Pass(10 * time.Second)
		l.wantNotice(1, "net-1 10.4.1.0/24")
		id := l.fleet.Launch("other", func(i *cloud.Instance) { i.Forwards = true })
		l.fleet.Do(func() { l.fleet.Revoked = true })
		l.ChangeNode(nameOf(1), func(n *corev1.Node) { n.Spec.ProviderID = id })
		l.Pass(2 * time.Second)
		l.wantNotice(1, "")
		l.fleet.Do(func() { l.fleet.Revoked = false })
		l.Pass(2 * time.Minute)
		l.wantNotice(1, "net-1 10.4.1.0/24")
	})
}
