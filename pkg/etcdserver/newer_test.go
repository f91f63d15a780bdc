package etcdserver

import (
	"path/filepath"
	"testing"

	"go.etcd.io/etcd/api/v3/version"
	"go.etcd.io/etcd/server/v3/storage/backend"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"go.uber.org/zap"
)

// newer turns the data into those of the next etcd. It reads no version there: etcd writes
// one once it leads, and where it missed that moment, only at its look every four seconds.
func newer(t *testing.T, dir string) {
	t.Helper()
	be := backend.NewDefaultBackend(zap.NewNop(), filepath.Join(dir, "member/snap/db"))
	defer be.Close()
	next := version.V3_0
	if err := next.Set(version.Cluster(version.Version) + ".0"); err != nil {
		t.Fatal(err)
	}
	next.Minor++
	schema.NewMembershipBackend(zap.NewNop(), be).MustSaveClusterVersionToBackend(&next)
	tx := be.BatchTx()
	tx.Lock()
	defer tx.Unlock()
	schema.UnsafeSetStorageVersion(tx, &next)
}
