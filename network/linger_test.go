package network

import (
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/test/bubbletest"
)

// TestStoreLosesItsData: all nodes write their leases again, which takes a busy store long.
func TestStoreLosesItsData(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		l := newLife(t, plainConfig)
		for _, n := range []byte{9, 10, 11} {
			l.peer(n)
		}
		l.start()
		l.soon()
		l.wantReady(true, "on vxlan, 3 peers")
		l.store.Delete("10.5.9.0-24") // the gap prolongs its time, too
		l.after(linger / 2)
		l.store.Wipe()
		l.after(lingerAfterGap / 2)
		l.peer(10)
		l.after(lingerAfterGap/2 - time.Second)
		for _, route := range []string{"10.5.9.0/24", "10.5.10.0/24", "10.5.11.0/24"} {
			l.wantRoute(route, true)
		}
		l.store.Wipe() // also a second time
		l.after(lingerAfterGap - time.Second)
		l.wantRoute("10.5.10.0/24", true)
		l.after(time.Second)
		l.peer(10)
		l.after(2*linger + time.Second)
		l.wantReady(true, "on vxlan, 1 peers")
		l.wantRoute("10.5.9.0/24", false)
		l.wantRoute("10.5.10.0/24", true)
		l.wantRoute("10.5.11.0/24", false)
		l.own() // it has written its own lease again
	})
}
