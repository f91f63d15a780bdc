package etcdtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
)

// The ports of each member, on its own address.
const (
	ClientPort = 2379
	peerPort   = 2380
)

// patience is the time limit of a wait before the test fails.
const patience = 2 * time.Minute

// Options are the size, the location and the settings of a cluster.
type Options struct {
	Members int // zero means 1
	// Namespace is the name of the network namespace to run in. If it is empty, the
	// servers run in that of this process. A namespace needs Addresses.
	Namespace string
	// Addresses are those of the members. If it is empty, they are on the loopback.
	Addresses []netip.Addr
	// CertFile and KeyFile turn on TLS for clients. CAFile also requires a certificate
	// that its authority has signed.
	CertFile, KeyFile, CAFile string
	// Quota is the size limit of the database in bytes; zero means etcd's own limit.
	Quota int64
	// Program is the path of another etcd that every member runs, for tests against an
	// older version. It serves without TLS.
	Program string
}

// Cluster is one etcd of one or more members.
type Cluster struct {
	t       testing.TB
	options Options
	members []*Member

	username, password string
}

// Start runs a cluster and waits until it answers.
func Start(t testing.TB, o Options) *Cluster {
	t.Helper()
	o.Members = max(o.Members, 1)
	switch {
	case len(o.Addresses) == 0 && o.Namespace == "":
		for range o.Members {
			o.Addresses = append(o.Addresses, Loopback(t))
		}
	case len(o.Addresses) != o.Members:
		t.Fatalf("%d addresses for %d etcds", len(o.Addresses), o.Members)
	}
	c := &Cluster{t: t, options: o}
	dir := t.TempDir()
	var peers []string
	for i := range o.Members {
		peers = append(peers, fmt.Sprintf("%s=%s", name(i), peerURL(o.Addresses[i])))
	}
	for i := range o.Members {
		c.members = append(c.members, &Member{cluster: c, config: config{
			Name: name(i), Dir: filepath.Join(dir, name(i)),
			Client: c.clientURL(i), Peer: peerURL(o.Addresses[i]), Cluster: strings.Join(peers, ","),
			CertFile: o.CertFile, KeyFile: o.KeyFile, CAFile: o.CAFile, Quota: o.Quota,
		}})
	}
	t.Cleanup(func() {
		for _, m := range c.members {
			m.Kill()
		}
	})
	c.start()
	return c
}

func name(i int) string { return fmt.Sprintf("etcd%d", i) }

func peerURL(a netip.Addr) string { return "http://" + netip.AddrPortFrom(a, peerPort).String() }

func (c *Cluster) clientURL(i int) string {
	scheme := "http://"
	if c.options.CertFile != "" {
		scheme = "https://"
	}
	return scheme + netip.AddrPortFrom(c.options.Addresses[i], ClientPort).String()
}

// Loopback returns an address at which no server listens, and whose ports no connection
// uses.
func Loopback(t testing.TB) netip.Addr {
	t.Helper()
	for range 100 {
		a := netip.AddrFrom4([4]byte{127, byte(64 + rand.N(64)), byte(rand.N(256)), byte(1 + rand.N(254))})
		l, err := net.Listen("tcp", netip.AddrPortFrom(a, ClientPort).String())
		if err == nil {
			l.Close()
			return a
		}
	}
	t.Fatal("no loopback address is free")
	panic("unreachable")
}

// start runs all members at once, because none becomes ready without the others.
func (c *Cluster) start() {
	c.t.Helper()
	for _, m := range c.members {
		m.start()
	}
	for _, m := range c.members {
		m.await()
	}
}

// Endpoints returns the URLs for clients, one for each member.
func (c *Cluster) Endpoints() []string {
	var urls []string
	for i := range c.members {
		urls = append(urls, c.clientURL(i))
	}
	return urls
}

// Member returns the i-th member.
func (c *Cluster) Member(i int) *Member { return c.members[i] }

// Leader returns the member that a majority considers the leader. It waits until
// there is one.
func (c *Cluster) Leader() (leader *Member) {
	c.t.Helper()
	c.eventually("one of the etcds leads", func() bool {
		votes, members := make(map[uint64]int), make(map[uint64]*Member)
		for _, m := range c.members {
			if s, err := m.status(); err == nil && s.Leader != 0 {
				votes[s.Leader]++
				members[s.Header.MemberId] = m
			}
		}
		for id, n := range votes {
			if m := members[id]; m != nil && 2*n > len(c.members) {
				leader = m
			}
		}
		return leader != nil
	})
	return leader
}

// eventually waits until f returns true, and fails the test after patience. what
// completes the sentence "waited until".
func (c *Cluster) eventually(what string, f func() bool) {
	c.t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !f() {
		select {
		case <-deadline.C:
			c.t.Fatalf("timed out after %v waiting until %s", patience, what)
		case <-tick.C:
		}
	}
}

// Client returns a client of all members. The end of the test closes it.
func (c *Cluster) Client(t testing.TB) *clientv3.Client {
	t.Helper()
	client, err := c.dial(c.Endpoints()...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

// Dial returns a client of one etcd, which need not be a member of a Cluster. The end
// of the test closes it.
func Dial(t testing.TB, endpoint string) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func (c *Cluster) dial(endpoints ...string) (*clientv3.Client, error) {
	config := clientv3.Config{Endpoints: endpoints, Username: c.username, Password: c.password, DialTimeout: time.Second, Logger: zap.NewNop(), DialOptions: []grpc.DialOption{
		grpc.WithConnectParams(grpc.ConnectParams{ // a member that is starting will soon answer
			Backoff: backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1.5, Jitter: 0.2, MaxDelay: 200 * time.Millisecond}, MinConnectTimeout: time.Second,
		}),
	}}
	if o := c.options; o.CertFile != "" {
		info := transport.TLSInfo{CertFile: o.CertFile, KeyFile: o.KeyFile, TrustedCAFile: o.CAFile}
		var err error
		if config.TLS, err = info.ClientConfig(); err != nil {
			return nil, err
		}
	}
	if c.options.Namespace != "" {
		config.DialOptions = append(config.DialOptions, grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return kerneltest.Dialer(c.options.Namespace)(ctx, "tcp", address)
		}))
	}
	return clientv3.New(config)
}

// DeleteAll removes every key with a prefix.
func (c *Cluster) DeleteAll(prefix string) {
	c.t.Helper()
	c.do("delete all of "+prefix, func(ctx context.Context, client *clientv3.Client) error {
		_, err := client.Delete(ctx, prefix, clientv3.WithPrefix())
		return err
	})
}

// Compact removes all of etcd's history up to now.
func (c *Cluster) Compact() {
	c.t.Helper()
	c.do("compact", func(ctx context.Context, client *clientv3.Client) error {
		r, err := client.Get(ctx, "x")
		if err != nil {
			return err
		}
		_, err = client.Compact(ctx, r.Header.Revision)
		return err
	})
}

// do calls f with a client.
func (c *Cluster) do(what string, f func(context.Context, *clientv3.Client) error) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	client, err := c.dial(c.Endpoints()...)
	if err == nil {
		defer client.Close()
		err = f(ctx, client)
	}
	if err != nil {
		c.t.Fatalf("%s: %v", what, err)
	}
}

// Backup is a copy of the data of all members.
type Backup struct{ dir string }

// Snapshot copies the data of all members. It stops them for that time.
func (c *Cluster) Snapshot() Backup {
	c.t.Helper()
	b := Backup{c.t.TempDir()}
	c.stop()
	for _, m := range c.members {
		c.copy(filepath.Join(b.dir, m.config.Name), m.config.Dir)
	}
	c.start()
	return b
}

// Restore replaces the data of all members with a backup.
func (c *Cluster) Restore(b Backup) {
	c.t.Helper()
	c.stop()
	for _, m := range c.members {
		c.remove(m.config.Dir)
		c.copy(m.config.Dir, filepath.Join(b.dir, m.config.Name))
	}
	c.start()
}

// Wipe removes the data of all members.
func (c *Cluster) Wipe() {
	c.t.Helper()
	c.stop()
	for _, m := range c.members {
		c.remove(m.config.Dir)
	}
	c.start()
}

func (c *Cluster) stop() {
	c.t.Helper()
	for _, m := range c.members {
		m.Kill() // unlike Stop, this does not transfer the leadership
	}
}

func (c *Cluster) copy(to, from string) {
	c.t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		c.t.Fatal(err)
	}
}

func (c *Cluster) remove(dir string) {
	c.t.Helper()
	if err := os.RemoveAll(dir); err != nil {
		c.t.Fatal(err)
	}
}
