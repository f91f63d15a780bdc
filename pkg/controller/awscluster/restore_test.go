package awscluster

import (
	"testing"
	"time"
)

// TestARestoredClusterIsServed: after a restore of the cluster from a backup that lacks our
// writes, the controller repeats them, and follows a deletion at once.
func TestARestoredClusterIsServed(t *testing.T) {
	inLab(t, func(l *lab) {
		l.cluster("prod", `{}`)
		l.awsCluster("prod", small)
		restore := l.API.Backup()
		a := l.accounts[home]
		a.slow = 200 * time.Millisecond
		l.Begin()
		l.RefuseWatches(AWSClusters) // only the answer shows the last write
		l.Pass(2 * time.Minute)
		l.sound("prod")
		owner := l.owner("prod")
		made := a.made()
		restore()
		l.AllowWatches()
		if o, _ := l.get("prod"); o.status.Ready || len(o.Metadata.Finalizers) > 0 {
			t.Fatal("the backup has our writes")
		}
		l.Pass(30 * time.Second)
		l.sound("prod")
		if more := a.made() - made; more > 0 {
			t.Errorf("the restore causes %d calls", more)
		}
		l.delete("prod")
		l.Pass(2 * time.Minute)
		if _, exists := l.get("prod"); exists || len(a.left(owner)) > 0 {
			t.Errorf("left over: %v, %s", a.left(owner), l.condition("prod", "Ready"))
		}
	})
}

// TestStatesOlderThanAnAnswerCauseNoWrite: neither the watch nor a list that began before our
// write ended undoes what the answer has shown.
func TestStatesOlderThanAnAnswerCauseNoWrite(t *testing.T) {
	inLab(t, func(l *lab) {
		l.build()
		writes := l.API.Asked("PATCH")
		l.Do(func() {
			n := l.c.networks["default/prod"]
			stale := n.state
			stale.Finalizers, stale.ResourceVersion, stale.revision = nil, "1", 1
			l.c.set(n.Key(), stale)
			l.c.list(n.written, map[string]state{n.Key(): stale})
		})
		l.Pass(time.Second)
		if more := l.API.Asked("PATCH") - writes; more > 0 {
			t.Errorf("%d writes for an older state", more)
		}
	})
}
