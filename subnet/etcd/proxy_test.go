package etcd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"

	"github.com/tulle-net/tulle/subnet"
)

// line is a connection to etcd that can be cut.
type line struct {
	listener net.Listener
	to       string

	mu    sync.Mutex
	cut   bool
	hung  bool
	conns map[net.Conn]bool
}

func newLine(t *testing.T, endpoint string) *line {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &line{listener: listener, to: strings.TrimPrefix(endpoint, "http://"), conns: map[net.Conn]bool{}}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() { l.serve(c) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		l.set(true)
		running.Wait()
	})
	return l
}

func (l *line) endpoint() string { return "http://" + l.listener.Addr().String() }

// set cuts or restores the connection.
func (l *line) set(cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = cut
	if cut {
		for c := range l.conns {
			c.Close()
		}
	}
}

// hang silently drops all data until the connection is cut.
func (l *line) hang() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hung = true
}

func (l *line) hangs() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.hung
}

// end is one end of a connection.
type end struct {
	net.Conn
	line *line
}

// Write implements io.Writer.
func (e end) Write(b []byte) (int, error) {
	if e.line.hangs() {
		return len(b), nil
	}
	return e.Conn.Write(b)
}

// keep closes c when the connection is cut. It returns false if it is cut already.
func (l *line) keep(c net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.cut {
		l.conns[c] = true
	}
	return !l.cut
}

func (l *line) serve(c net.Conn) {
	defer c.Close()
	far, err := net.Dial("tcp", l.to)
	if err != nil {
		return
	}
	defer far.Close()
	if !l.keep(c) || !l.keep(far) {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { io.Copy(end{far, l}, c); far.Close() })
	both.Go(func() {
		io.Copy(end{c, l}, far)
		if !l.hangs() {
			c.Close()
		}
	})
	both.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c)
	delete(l.conns, far)
}

// TestCutWatchResumes: a watch whose connection was cut resumes where it was. It
// lists again only if etcd compacted that revision.
func TestCutWatchResumes(t *testing.T) {
	for _, compacted := range []bool{false, true} {
		t.Run(fmt.Sprintf("compacted %t", compacted), func(t *testing.T) {
			l := newLab(t)
			l.SetConfig(network)
			line := newLine(t, l.server.Endpoint())
			s := l.openAt(line.endpoint())
			own := l.acquire(s, claim(1))
			l.hold(s, own)
			f := l.follow(s)
			f.await("the lease", f.has(own))

			line.set(true)
			two, three := l.acquire(l.Store, claim(2)), l.acquire(l.Store, claim(3))
			l.Delete(two.Key())
			l.Delete(own.Key())
			if compacted {
				r, err := l.client.Get(t.Context(), "x")
				l.do("ask for the revision", r, err)
				c, err := l.client.Compact(t.Context(), r.Header.Revision)
				l.do("compact", c, err)
			}
			line.set(false)
			f.await("what came meanwhile, and our own again", f.has(own, three))
			if compacted != (f.lists > 1) {
				t.Errorf("%d lists", f.lists)
			}
		})
	}
}

// whereWatched records the address over which each stream of watches begins.
type whereWatched chan string

// HandleRPC implements stats.Handler.
func (w whereWatched) HandleRPC(_ context.Context, s stats.RPCStats) {
	if h, ok := s.(*stats.OutHeader); ok && strings.HasSuffix(h.FullMethod, "/Watch") {
		select {
		case w <- "http://" + h.RemoteAddr.String():
		default: // only the first matters
		}
	}
}

// TagRPC, TagConn and HandleConn implement the rest of stats.Handler.
func (whereWatched) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (whereWatched) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (whereWatched) HandleConn(context.Context, stats.ConnStats)                       {}

// TestRestoreWhileWatchHangs: a watch hangs on a connection to a former etcd. A
// working connection to the present one does not prove that nothing was missed.
func TestRestoreWhileWatchHangs(t *testing.T) {
	t.Parallel()
	l, cluster := newCluster(t, 1)
	l.SetConfig(network)
	old := cluster.Snapshot()
	lines := []*line{newLine(t, l.endpoints[0]), newLine(t, l.endpoints[0])}
	where := make(whereWatched, 1)
	s := l.openWith(func(o *Options) {
		o.Endpoints = []string{lines[0].endpoint(), lines[1].endpoint()}
		o.dial = []grpc.DialOption{grpc.WithStatsHandler(where)}
	})
	one, two := l.acquire(l.Store, claim(1)), l.acquire(l.Store, claim(2))
	f := l.follow(s)
	f.await("both", f.has(one, two))
	hung := lines[0]
	if <-where != hung.endpoint() {
		hung = lines[1]
	}
	hung.hang()
	cluster.Restore(old)
	for range 30 { // so that revisions do not show the restore
		l.SetConfig(network)
	}
	three := l.acquire(l.open(), claim(3))
	if _, err := s.list(t.Context()); err != nil { // as Acquire does when the host has another address
		t.Fatal(err)
	}
	hung.set(true)
	f.await("those who are there now", f.has(three))
}

// TestGivesWayToLeaseTakenWhileCut: a node returns and finds that another node has leased its subnet
// or a part of it. It yields, also if the answer to its first write is lost.
func TestGivesWayToLeaseTakenWhileCut(t *testing.T) {
	for name, c := range map[string]struct {
		bits   int
		config string
		loses  bool
	}{
		"all":                {24, network, false},
		"a part":             {26, `{"Network": "10.5.0.0/16", "SubnetLen": 26}`, false},
		"a part, and a loss": {26, `{"Network": "10.5.0.0/16", "SubnetLen": 26}`, true},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			l.SetConfig(network)
			line := newLine(t, l.server.Endpoint())
			var loses atomic.Bool
			lossy := grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
				err := invoke(ctx, method, request, reply, conn, options...)
				if err == nil && strings.HasSuffix(method, "/Txn") && loses.CompareAndSwap(true, false) {
					return errors.New("the answer is lost")
				}
				return err
			})
			s := l.openWith(func(o *Options) { o.Endpoints, o.dial = []string{line.endpoint()}, []grpc.DialOption{lossy} })
			own := l.acquire(s, claim(1))
			ended := make(chan error, 1)
			go func() { ended <- s.Hold(t.Context(), own) }()
			line.set(true)
			l.Delete(own.Key())
			l.SetConfig(c.config)
			other := claim(2)
			other.Want[subnet.IPv4] = netip.PrefixFrom(own.Subnets[subnet.IPv4].Addr(), c.bits)
			got := l.acquire(l.Store, other)
			if got.Subnets != other.Want {
				t.Fatalf("the other got %s", got.Key())
			}
			loses.Store(c.loses)
			line.set(false)
			if err := <-ended; !errors.Is(err, subnet.ErrTaken) || !strings.Contains(err.Error(), "node-2") {
				t.Errorf("Hold ended with %v, want %v by node-2", err, subnet.ErrTaken)
			}
			f := l.follow(l.Store)
			f.await("the other's alone", f.has(got))
		})
	}
}
