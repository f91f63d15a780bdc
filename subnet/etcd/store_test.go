package etcd

import (
	"context"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/tulle-net/tulle/pkg/embedetcd"
	"github.com/tulle-net/tulle/subnet/storetest"
)

const prefix = "/coreos.com/network"

// lab is an etcd, and a store on it.
type lab struct {
	*Store
	t      *testing.T
	server *embedetcd.Server
	client *clientv3.Client // another's, as etcdctl's
}

func newLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{t: t}
	var err error
	if l.server, err = embedetcd.Start(t.Context(), embedetcd.Options{Dir: t.TempDir(), Listen: "http://127.0.0.1:0"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.server.Stop)
	if l.client, err = clientv3.New(clientv3.Config{Endpoints: []string{l.server.Endpoint()}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.client.Close() })
	l.Store = l.open()
	return l
}

// open is a further store on the same etcd, as another node has one.
func (l *lab) open(dial ...grpc.DialOption) *Store {
	l.t.Helper()
	return l.openAt(l.server.Endpoint(), dial...)
}

func (l *lab) openAt(endpoint string, dial ...grpc.DialOption) *Store {
	l.t.Helper()
	s, err := Open(l.t.Context(), Options{Endpoints: []string{endpoint}, Prefix: prefix, TTL: 24 * time.Hour, RenewMargin: time.Hour, dial: dial})
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { s.Close() })
	return s
}

func (l *lab) do(what string, _ any, err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatalf("%s: %v", what, err)
	}
}

func (l *lab) SetConfig(config string) {
	r, err := l.client.Put(context.Background(), prefix+"/config", config)
	l.do("write config", r, err)
}

func (l *lab) Write(key, value string) {
	r, err := l.client.Put(context.Background(), prefix+"/subnets/"+key, value)
	l.do("write "+key, r, err)
}

func (l *lab) Delete(key string) {
	r, err := l.client.Delete(context.Background(), prefix+"/subnets/"+key)
	l.do("delete "+key, r, err)
}

// Gap has etcd forget what every watcher would have to go on from.
func (l *lab) Gap() {
	l.position.mu.Lock()
	defer l.position.mu.Unlock()
	l.position.lose()
}

func TestConformance(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Store { return newLab(t) })
}
