package etcdserver

import (
	"path/filepath"
	"testing"

	"go.etcd.io/etcd/server/v3/storage/backend"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"go.uber.org/zap"
)

// newer turns the data into those of a later etcd.
func newer(t *testing.T, dir string) {
	t.Helper()
	be := backend.NewDefaultBackend(zap.NewNop(), filepath.Join(dir, "member/snap/db"))
	defer be.Close()
	members := schema.NewMembershipBackend(zap.NewNop(), be)
	v := members.ClusterVersionFromBackend()
	if v == nil {
		t.Fatal("the data have no version")
	}
	v.Minor++
	members.MustSaveClusterVersionToBackend(v)
	tx := be.BatchTx()
	tx.Lock()
	defer tx.Unlock()
	schema.UnsafeSetStorageVersion(tx, v)
}
