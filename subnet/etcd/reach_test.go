package etcd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/test/certtest"
	"github.com/tulle-net/tulle/pkg/test/etcdtest"
)

// failsWith lists the leases until the store reports a failure with this hint. It checks
// that the report contains no text of gRPC.
func failsWith(t *testing.T, s *Store, hint string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _, _ = s.list(ctx) })
	defer running.Wait()
	defer cancel()
	kerneltest.Eventually(t, patience, func() error {
		last := s.Status().Last.Why
		if last == "" {
			return errors.New("no failure")
		}
		for _, raw := range []string{"rpc error", "desc =", "balancer", "transport:", "preface"} {
			if strings.Contains(last, raw) {
				t.Fatalf("gRPC's text: %s", last)
			}
		}
		if !strings.Contains(last, hint) {
			return fmt.Errorf("reported: %s; want %q", last, hint)
		}
		return nil
	})
	t.Log(s.Status().Last.Why)
}

// secureCluster starts an etcd that requires certificates, at an address of its own.
func secureCluster(t *testing.T, by *certtest.Authority) (c *etcdtest.Cluster, at netip.Addr, theirs certtest.Files) {
	t.Helper()
	at = etcdtest.Loopback(t)
	theirs = certtest.NewFiles(t)
	by.Write(theirs, at, time.Hour)
	return etcdtest.Start(t, etcdtest.Options{Addresses: []netip.Addr{at}, CertFile: theirs.Cert, KeyFile: theirs.Key, CAFile: theirs.CA}), at, theirs
}

// TestUnreachableEtcdIsExplained checks the report for each way in which an etcd can be
// unusable or absent.
func TestUnreachableEtcdIsExplained(t *testing.T) {
	good, other := certtest.New(t), certtest.New(t)
	files := func(t *testing.T, at netip.Addr, change func(f certtest.Files)) certtest.Files {
		f := certtest.NewFiles(t)
		good.Write(f, at, time.Hour)
		change(f)
		return f
	}
	same := func(certtest.Files) {}
	for name, c := range map[string]struct {
		hint    string
		options func(t *testing.T) Options
	}{
		"frozen": {"does not answer: it is frozen", func(t *testing.T) Options {
			c := etcdtest.Start(t, etcdtest.Options{})
			c.Member(0).Freeze()
			return Options{Endpoints: c.Endpoints()}
		}},
		"frozen with TLS": {"does not answer: it is frozen", func(t *testing.T) Options {
			c, at, _ := secureCluster(t, good)
			c.Member(0).Freeze()
			return secureOptions(c.Endpoints()[0], files(t, at, same))
		}},
		"no client certificate": {"wants a client certificate", func(t *testing.T) Options {
			c, at, _ := secureCluster(t, good)
			o := secureOptions(c.Endpoints()[0], files(t, at, same))
			o.CertFile, o.KeyFile = "", ""
			return o
		}},
		"client certificate of another authority": {"etcd rejects the certificate in the certificate file; use one", func(t *testing.T) Options {
			c, at, _ := secureCluster(t, good)
			return secureOptions(c.Endpoints()[0], files(t, at, func(f certtest.Files) {
				other.Write(certtest.Files{Cert: f.Cert, Key: f.Key, CA: f.CA + ".other"}, at, time.Hour)
			}))
		}},
		"expired client certificate": {"the certificate file: it has expired", func(t *testing.T) Options {
			c, at, _ := secureCluster(t, good)
			return secureOptions(c.Endpoints()[0], files(t, at, func(f certtest.Files) { good.Write(f, at, -time.Minute) }))
		}},
		"server certificate of another authority": {"no authority in the CA file", func(t *testing.T) Options {
			c, at, _ := secureCluster(t, good)
			return secureOptions(c.Endpoints()[0], files(t, at, func(f certtest.Files) {
				other.Write(certtest.Files{Cert: f.Cert + ".other", Key: f.Key + ".other", CA: f.CA}, at, time.Hour)
			}))
		}},
		"expired server certificate": {"etcd's certificate has expired", func(t *testing.T) Options {
			c, at, theirs := secureCluster(t, good)
			good.Write(theirs, at, -time.Minute)
			return secureOptions(c.Endpoints()[0], files(t, at, same))
		}},
		"server certificate for another name": {"etcd's certificate is for another name", func(t *testing.T) Options {
			c, at, theirs := secureCluster(t, good)
			good.Write(theirs, netip.MustParseAddr("127.0.0.1"), time.Hour)
			return secureOptions(c.Endpoints()[0], files(t, at, same))
		}},
		"without TLS to an etcd with TLS": {"use https://", func(t *testing.T) Options {
			c, _, _ := secureCluster(t, good)
			return Options{Endpoints: []string{"http://" + strings.TrimPrefix(c.Endpoints()[0], "https://")}}
		}},
		"with TLS to an etcd without": {"does not speak TLS", func(t *testing.T) Options {
			c := etcdtest.Start(t, etcdtest.Options{})
			return secureOptions("https://"+strings.TrimPrefix(c.Endpoints()[0], "http://"), files(t, netip.MustParseAddr("127.0.0.1"), same))
		}},
		"stopped": {"nothing listens at the endpoints", func(t *testing.T) Options {
			c := etcdtest.Start(t, etcdtest.Options{})
			c.Member(0).Stop()
			return Options{Endpoints: c.Endpoints()}
		}},
		"no route":          {"no route leads to the endpoints; start", func(t *testing.T) Options { return inNamespace(t, "192.0.2.1") }},
		"network unknown":   {"no route leads to the endpoints; correct", func(t *testing.T) Options { return inNamespace(t, "192.0.2.2") }},
		"packets are lost":  {"no packet comes back", func(t *testing.T) Options { return inNamespace(t, "192.0.2.3") }},
		"name without host": {"DNS does not know the name", func(*testing.T) Options { return Options{Endpoints: []string{"http://etcd.invalid:2379"}} }},
		"another server": {"is not etcd", func(t *testing.T) Options {
			server := httptest.NewUnstartedServer(http.NotFoundHandler())
			server.Config.Protocols = new(http.Protocols)
			server.Config.Protocols.SetUnencryptedHTTP2(true)
			server.Start()
			t.Cleanup(server.Close)
			return Options{Endpoints: []string{server.URL}}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := c.options(t)
			o.Prefix, o.TTL, o.RenewMargin = prefix, 24*time.Hour, time.Hour
			s, err := Open(o)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			failsWith(t, s, c.hint)
		})
	}
}

// inNamespace returns options for an etcd at an address, on a host with an
// unreachable route to 192.0.2.1, a link that loses all packets to 192.0.2.3, and no
// route to any other.
func inNamespace(t *testing.T, to string) Options {
	ns := kerneltest.NewNS(t, "reach")
	ns.IP(t, "link set lo up")
	ns.IP(t, "link add lost type veth peer name end")
	ns.IP(t, "link set end up")
	ns.IP(t, "link set lost up arp off")
	ns.IP(t, "addr add 192.0.2.100/32 dev lost")
	ns.IP(t, "route add 192.0.2.3/32 dev lost")
	ns.IP(t, "route add unreachable 192.0.2.1/32")
	return Options{Endpoints: []string{"http://" + to + ":2379"}, dial: []grpc.DialOption{
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return kerneltest.Dialer(ns.Name)(ctx, "tcp", address)
		}),
	}}
}

// TestAnswerClearsFailure: an answer clears the recorded failure of a connection.
func TestAnswerClearsFailure(t *testing.T) {
	t.Parallel()
	l, cluster := newCluster(t, 1)
	cluster.Member(0).Freeze()
	failsWith(t, l.Store, "it is frozen")
	cluster.Member(0).Thaw()
	if _, err := l.list(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := l.reach.last(); err != nil {
		t.Errorf("noted: %v", err)
	}
	cluster.Member(0).Stop()
	failsWith(t, l.Store, "nothing listens")
}

// FuzzExplain checks that every error has an explanation.
func FuzzExplain(f *testing.F) {
	for _, text := range []string{
		`rpc error: code = DeadlineExceeded desc = latest balancer error: connection error: desc = "transport: Error while dialing: dial tcp 127.0.0.1:1: connect: connection refused"`,
		`""`, `"`, "context deadline exceeded",
	} {
		f.Add(text)
	}
	known := reasonsFor(Names{}.orWords())
	f.Fuzz(func(t *testing.T, text string) {
		if kind, words := known.explain(errors.New(text)); kind != "" && words == "" {
			t.Errorf("%q has no words", text)
		}
	})
}
