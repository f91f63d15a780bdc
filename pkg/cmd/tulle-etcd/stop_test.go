package main

import (
	"context"
	"crypto/tls"
	"flag"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc/metadata"

	"github.com/tulle-net/tulle/pkg/companion"
	"github.com/tulle-net/tulle/pkg/etcdprocess"
	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/test/certtest"
)

var stops = flag.Int("stops", 12, "how often TestStopUnderLoad starts and stops tulle-etcd")

// mostToStop is less than any service manager waits before it kills.
const mostToStop = 5 * time.Second

// TestStopUnderLoad stops the program again and again while clients watch, write
// and renew leases over TLS, read slowly, and hang in a handshake. Each stop is in
// time, and the next start has all that was acknowledged.
func TestStopUnderLoad(t *testing.T) {
	l := newLoad(t)
	var took []time.Duration
	for range *stops {
		l.start()
		l.compare()
		l.run()
		before := time.Now()
		state := l.process.End(syscall.SIGTERM)
		took = append(took, time.Since(before))
		if last := took[len(took)-1]; !state.Success() || last > mostToStop {
			t.Fatalf("stop %d took %v: %v\n%s", len(took), last, state, l.process.Said())
		}
		l.end()
	}
	l.start()
	l.compare()
	l.end()
	slices.Sort(took)
	t.Logf("%d stops, median %v, longest %v; %d acknowledged writes are all there", len(took), took[len(took)/2], took[len(took)-1], l.writes)
}

// A crash loses nothing either that was acknowledged.
func TestCrashUnderLoad(t *testing.T) {
	l := newLoad(t)
	for range 3 {
		l.start()
		l.compare()
		l.run()
		l.process.End(syscall.SIGKILL)
		l.end()
	}
	l.start()
	l.compare()
	l.end()
}

// load is what clients do to one process after the other.
type load struct {
	t        *testing.T
	settings etcdprocess.Settings
	tls      *tls.Config

	process *kerneltest.Process
	clients []*clientv3.Client
	conns   []net.Conn
	stop    context.CancelFunc
	running sync.WaitGroup

	mu           sync.Mutex
	writes       int
	acknowledged map[string]int // the last value of each key
}

func newLoad(t *testing.T) *load {
	t.Helper()
	files, s := certtest.NewFiles(t), newSettings(t, "https")
	u, err := url.Parse(s.Listen)
	if err != nil {
		t.Fatal(err)
	}
	certtest.New(t).Write(files, netip.MustParseAddr(u.Hostname()), 24*time.Hour)
	s.CertFile, s.KeyFile, s.CAFile = files.Cert, files.Key, files.CA
	info := transport.TLSInfo{CertFile: files.Cert, KeyFile: files.Key, TrustedCAFile: files.CA}
	identity, err := info.ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	return &load{t: t, settings: s, tls: identity, acknowledged: make(map[string]int)}
}

func (l *load) start() {
	l.t.Helper()
	l.process = launch(l.t, l.settings)
	awaitState(l.t, l.process, l.settings, companion.Running)
}

func (l *load) dial() *clientv3.Client {
	l.t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{l.settings.Listen}, TLS: l.tls, Logger: zap.NewNop()})
	if err != nil {
		l.t.Fatal(err)
	}
	l.clients = append(l.clients, c)
	return c
}

const watched = "watched/"

// run returns when everything is under way.
func (l *load) run() {
	l.t.Helper()
	ctx, cancel := context.WithCancel(l.t.Context())
	l.stop = cancel
	for n := range 8 {
		c := l.dial()
		l.watch(ctx, c)
		l.running.Go(func() { l.write(ctx, c, fmt.Sprintf("%s%d", watched, n)) })
	}
	l.lease(ctx)
	l.readSlowly(ctx)
	l.hang()
	before, more := 0, 50
	l.mu.Lock()
	before = l.writes
	l.mu.Unlock()
	kerneltest.Eventually(l.t, 3*time.Minute, func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		if n := l.writes - before; n < more {
			return fmt.Errorf("%d writes so far", n)
		}
		return nil
	})
}

// watch opens several streams, which the client opens again when they break.
func (l *load) watch(ctx context.Context, c *clientv3.Client) {
	l.t.Helper()
	for n := range 4 {
		// A client opens one stream for all contexts with the same metadata.
		ctx := metadata.AppendToOutgoingContext(ctx, "stream", strconv.Itoa(n))
		events := c.Watch(ctx, watched, clientv3.WithPrefix(), clientv3.WithCreatedNotify())
		if created := <-events; created.Err() != nil {
			l.t.Fatal(created.Err())
		}
		l.running.Go(func() {
			for range events {
			}
		})
	}
}

// write counts up in a key until ctx ends, and keeps what was acknowledged.
func (l *load) write(ctx context.Context, c *clientv3.Client, key string) {
	for ctx.Err() == nil {
		l.mu.Lock()
		next := l.acknowledged[key] + 1
		l.mu.Unlock()
		// A limit of its own would pile up abandoned writes on a slow disk.
		if _, err := c.Put(ctx, key, strconv.Itoa(next)); err == nil {
			l.mu.Lock()
			l.acknowledged[key] = next
			l.writes++
			l.mu.Unlock()
		}
	}
}

// lease renews a lease as often as it can.
func (l *load) lease(ctx context.Context) {
	l.t.Helper()
	c := l.dial()
	granted, err := c.Grant(ctx, 60)
	if err != nil {
		l.t.Fatal(err)
	}
	l.running.Go(func() {
		for ctx.Err() == nil {
			within, cancel := context.WithTimeout(ctx, time.Second)
			_, _ = c.KeepAliveOnce(within, granted.ID)
			cancel()
		}
	})
}

// readSlowly begins to read a snapshot, and reads on when the server is gone.
func (l *load) readSlowly(ctx context.Context) {
	l.t.Helper()
	snapshot, err := l.dial().Snapshot(ctx)
	if err != nil {
		l.t.Fatal(err)
	}
	if _, err := snapshot.Read(make([]byte, 1)); err != nil {
		l.t.Fatal(err)
	}
	l.running.Go(func() {
		defer snapshot.Close()
		<-ctx.Done()
		_, _ = io.Copy(io.Discard, snapshot)
	})
}

// hang opens connections that say nothing, or too little.
func (l *load) hang() {
	l.t.Helper()
	for _, say := range []string{"", "\x16\x03\x01\x02\x00"} {
		c, err := net.Dial("tcp", strings.TrimPrefix(l.settings.Listen, "https://"))
		if err != nil {
			l.t.Fatal(err)
		}
		l.conns = append(l.conns, c)
		if _, err := io.WriteString(c, say); err != nil {
			l.t.Fatal(err)
		}
	}
	c, err := tls.Dial("tcp", strings.TrimPrefix(l.settings.Listen, "https://"), l.tls)
	if err != nil {
		l.t.Fatal(err)
	}
	l.conns = append(l.conns, c) // no HTTP/2 follows
}

// compare looks for everything that was acknowledged. The write after it may be
// there as well: only its answer was cut off.
func (l *load) compare() {
	l.t.Helper()
	r, err := l.dial().Get(l.t.Context(), watched, clientv3.WithPrefix())
	if err != nil {
		l.t.Fatal(err)
	}
	has := make(map[string]string)
	for _, kv := range r.Kvs {
		has[string(kv.Key)] = string(kv.Value)
	}
	for key, n := range l.acknowledged {
		if got := has[key]; got != strconv.Itoa(n) && got != strconv.Itoa(n+1) {
			l.t.Errorf("%s is %q, and %d was acknowledged", key, got, n)
		}
	}
}

func (l *load) end() {
	if l.stop != nil {
		l.stop()
	}
	for _, c := range l.conns {
		c.Close()
	}
	for _, c := range l.clients {
		c.Close()
	}
	l.running.Wait()
	l.stop, l.conns, l.clients = nil, nil, nil
}
