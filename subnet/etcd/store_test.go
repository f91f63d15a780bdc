package etcd

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/tulle-net/tulle/pkg/etcdserver"
	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/test/etcdtest"
	"github.com/tulle-net/tulle/subnet"
	"github.com/tulle-net/tulle/subnet/storetest"
)

const prefix = "/coreos.com/network"

func TestMain(m *testing.M) {
	etcdtest.Main()
	// Parallel tests mostly wait: for servers that start, and between retries. So more of them
	// run at once than there are processors. -parallel says otherwise.
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// lab is an etcd with a store.
type lab struct {
	*Store
	t         *testing.T
	server    *etcdserver.Server // nil if it runs elsewhere
	endpoints []string
	client    *clientv3.Client // another client, as etcdctl is
}

func newLab(t *testing.T) *lab {
	t.Helper()
	server, err := etcdserver.Start(t.Context(), etcdserver.Options{Dir: t.TempDir(), Listen: "http://127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	l := newLabAt(t, server.Endpoint())
	l.server = server
	return l
}

func newLabAt(t *testing.T, endpoints ...string) *lab {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: endpoints, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	l := &lab{t: t, endpoints: endpoints, client: client}
	l.Store = l.open()
	return l
}

// newCluster returns a lab with servers that a test can kill, freeze and restore.
func newCluster(t *testing.T, members int) (*lab, *etcdtest.Cluster) {
	t.Helper()
	c := etcdtest.Start(t, etcdtest.Options{Members: members})
	return newLabAt(t, c.Endpoints()...), c
}

// open opens another store on the same etcd, as another node does.
func (l *lab) open(dial ...grpc.DialOption) *Store {
	l.t.Helper()
	return l.openWith(func(o *Options) { o.dial = dial })
}

func (l *lab) openAt(endpoints ...string) *Store {
	l.t.Helper()
	return l.openWith(func(o *Options) { o.Endpoints = endpoints })
}

func (l *lab) openWith(change func(*Options)) *Store {
	l.t.Helper()
	o := Options{Endpoints: l.endpoints, Prefix: prefix, TTL: 24 * time.Hour, RenewMargin: time.Hour}
	change(&o)
	s, err := Open(o)
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

// Gap makes all readers list again, as after a restore.
func (l *lab) Gap() {
	l.position.mu.Lock()
	defer l.position.mu.Unlock()
	l.position.lose()
}

// TestConformance runs the tests that hold for every store.
func TestConformance(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Store { return newLab(t) })
}

// TestConfigSaysWhyItWaits: a wait for the config that its context ends has the reason.
func TestConfigSaysWhyItWaits(t *testing.T) {
	l := newLab(t)
	wants := func(why string) {
		t.Helper()
		kerneltest.Eventually(t, patience, func() error { // a busy etcd may take longer to answer
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := l.Config(ctx, subnet.Config{})
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("got %v", err)
			}
			if !strings.HasPrefix(err.Error(), why) {
				return fmt.Errorf("got %w, want %q", err, why)
			}
			return nil
		})
	}
	wants("there is no key " + prefix + "/config; write it: etcdctl put")
	l.SetConfig(`{"Network": 7}`)
	wants("network config: Network is 7: not a network")
}
