package nodeipam

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tulle-net/tulle/pkg/controller"
	"github.com/tulle-net/tulle/pkg/controller/labtest"
	"github.com/tulle-net/tulle/pkg/ipam"
	"github.com/tulle-net/tulle/pkg/kube/apitest"
)

// TestANodeIsServedSoonAfterAnOutage: however long the server has refused every write, a Node
// has its podCIDRs within seconds of the first one that it makes.
func TestANodeIsServedSoonAfterAnOutage(t *testing.T) {
	for _, code := range []int32{http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusServiceUnavailable} {
		t.Run(http.StatusText(int(code)), func(t *testing.T) {
			labtest.Run(t, func(l *labtest.Lab) {
				l.Clean = true
				l.Start(controller.Options{}, func(e *controller.Engine) {
					o := Options{Client: l.Client, Pools: []ipam.Pool{poolOf("cluster-cidr", "10.1.0.0/16")}, Event: func(controller.Event) {}}
					if _, err := New(e, o); err != nil {
						t.Fatal(err)
					}
				})
				var works atomic.Bool
				l.API.Do(func() {
					l.API.Change("ADDED", &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}})
					l.API.Refuse = func(r *http.Request) *metav1.Status {
						if works.Load() || r.Method != http.MethodPatch || !strings.HasPrefix(r.URL.Path, "/api/v1/nodes/") {
							return nil
						}
						return apitest.Refusal(code, "refused by the test")
					}
				})
				l.Begin()
				for range 10 {
					works.Store(false)
					l.Pass(10 * time.Minute)
					works.Store(true)
					// Both the Engine's back-off and the Node's are at most ten seconds.
					l.Pass(20 * time.Second)
					l.API.Do(func() {
						if len(l.API.Nodes["a"].Spec.PodCIDRs) == 0 {
							t.Error("the Node has no podCIDRs 20 s after the outage")
						}
						l.API.Change("DELETED", l.API.Nodes["a"])
						l.API.Change("ADDED", &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}})
					})
				}
			})
		})
	}
}
