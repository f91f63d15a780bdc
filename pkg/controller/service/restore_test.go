package service

import (
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/cloud"
)

// TestARestoredClusterIsServed: after a restore of the cluster from a backup that lacks our
// writes, the controller repeats them, and follows changes and deletions at once.
func TestARestoredClusterIsServed(t *testing.T) {
	inLab(t, func(l *lab) {
		l.add("web")
		l.add("old")
		restore := l.API.Backup()
		l.slow(time.Second)
		l.Begin()
		l.RefuseWatches(Services) // only the answer shows the last write
		l.Pass(20 * time.Second)
		l.wantBalanced("web", 1, 2)
		l.wantBalanced("old", 1, 2)
		changes := len(l.cloud.Changes())
		restore()
		l.AllowWatches()
		if l.finalized("web") || l.host("web") != "" {
			t.Fatal("the backup has our writes")
		}
		l.Pass(20 * time.Second)
		l.wantBalanced("web", 1, 2)
		l.wantBalanced("old", 1, 2)
		if more := l.verbs(changes); len(more) > 0 {
			t.Errorf("the restore changes the cloud: %v", more)
		}
		l.change("web", annotate("healthcheck-interval", "20"))
		l.delete("old")
		l.Pass(time.Minute)
		if l.API.Object(path("old")) != nil {
			t.Error("the deleted Service is still there")
		}
		if more := l.verbs(changes); more[cloud.SetHealthCheck] != 1 {
			t.Errorf("the changed Service changes %v", more)
		}
	})
}

// TestStatesOlderThanAnAnswerCauseNoWrite: neither the watch nor a list that began before our
// write ended undoes what the answer has shown.
func TestStatesOlderThanAnAnswerCauseNoWrite(t *testing.T) {
	inLab(t, func(l *lab) {
		l.Begin()
		l.add("web")
		l.Pass(10 * time.Second)
		l.wantBalanced("web", 1, 2)
		writes := l.API.Asked("PATCH")
		l.Do(func() {
			s := l.c.services["default/web"]
			stale := s.state
			stale.finalizers, stale.Hosts, stale.version.ResourceVersion, stale.revision = nil, nil, "1", 1
			l.c.set("default/web", stale)
			l.c.list(s.written, map[string]state{"default/web": stale})
		})
		l.Pass(10 * time.Second)
		if more := l.API.Asked("PATCH") - writes; more > 0 {
			t.Errorf("%d writes for an older state", more)
		}
	})
}
