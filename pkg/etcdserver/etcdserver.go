package etcdserver

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"path"
	"strings"
	"syscall"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/server/v3/embed"

	"github.com/tulle-net/tulle/pkg/etcdprocess"
)

// Options say how the etcd runs. Port 0 of Listen is any.
type Options = etcdprocess.Settings

// Server is a running etcd of one member.
type Server struct {
	etcd    *embed.Etcd
	clients *clients
	life    *life
	done    chan struct{}
}

// Start starts an etcd and waits until it answers. After an error in the data, or if
// another process still locks them when ctx ends, parts of it go on, and this process
// cannot use the folder again.
func Start(ctx context.Context, o Options) (*Server, error) {
	u, err := parse(o.Listen)
	if err != nil {
		return nil, err
	}
	if u.Scheme == "https" && !isLoopback(u.Hostname()) && o.CAFile == "" && !o.AnyClient {
		return nil, fmt.Errorf("cannot listen at %s: without client certificates anyone who reaches it could rewrite the network; add --cafile; --without-client-certs allows it nevertheless", u)
	}
	s := &Server{life: newLife(), done: make(chan struct{})}
	s.clients, err = listen(u, transport.TLSInfo{
		CertFile: o.CertFile, KeyFile: o.KeyFile,
		TrustedCAFile: o.CAFile, ClientCertAuth: o.CAFile != "",
	})
	if err != nil {
		return nil, err
	}
	if s.etcd, err = s.begin(ctx, o); err != nil {
		s.clients.stop()
		return nil, err
	}
	s.life.begin()
	go func() {
		defer close(s.done)
		select {
		case <-s.clients.serve(s.etcd):
		case <-s.etcd.Server.StopNotify():
		}
	}()
	return s, nil
}

// begin starts the etcd itself and waits until it is ready.
func (s *Server) begin(ctx context.Context, o Options) (*embed.Etcd, error) {
	type result struct {
		etcd *embed.Etcd
		err  error
	}
	started := make(chan result, 1)
	go func() {
		defer s.life.recover()
		e, err := embed.StartEtcd(s.config(o))
		started <- result{e, err}
	}()
	var e *embed.Etcd
	select {
	case r := <-started:
		if r.err != nil {
			return nil, explain(r.err, o)
		}
		e = r.etcd
	case <-ctx.Done():
		s.life.end()
		within(stopLimit, func() {
			if r := <-started; r.err == nil {
				r.etcd.Close()
			}
		})
		return nil, fmt.Errorf("start etcd in %s: %w; perhaps another process uses that folder", o.Dir, ctx.Err())
	case <-s.life.over:
		if strings.Contains(s.life.why, syscall.ENOSPC.Error()) {
			return nil, fmt.Errorf("etcd in %s: %s; make room, it takes some 100 MB", o.Dir, s.life.why)
		}
		return nil, fmt.Errorf("etcd's data in %s cannot be used: %s; restore a backup of that folder, or move it away to begin with an empty store", o.Dir, s.life.why)
	}
	select {
	case <-e.Server.ReadyNotify():
		return e, nil
	case <-e.Server.StopNotify():
		return nil, fmt.Errorf("etcd in %s stopped during its start", o.Dir)
	case <-ctx.Done():
		s.life.end()
		within(stopLimit, e.Close)
		return nil, ctx.Err()
	}
}

func parse(listen string) (*url.URL, error) {
	u, err := url.Parse(listen)
	if err != nil || u.User != nil { // which may be a password
		return nil, errors.New("where to listen is not a plain URL; give one like http://127.0.0.1:2379")
	}
	switch {
	case u.Scheme == "http" && u.Port() != "" && u.Path == "" && !isLoopback(u.Hostname()):
		return nil, fmt.Errorf("cannot listen at %s: beyond loopback anybody could read and change the network; use https", u)
	case (u.Scheme == "http" || u.Scheme == "https") && u.Port() != "" && u.Path == "",
		(u.Scheme == "unix" || u.Scheme == "unixs") && u.Host == "" && path.IsAbs(u.Path):
		return u, nil
	}
	return nil, fmt.Errorf("cannot listen at %s; give a URL like http://127.0.0.1:2379 or unix:///run/tulle/etcd.sock", u)
}

// isLoopback reports whether only this host can reach host.
func isLoopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.Unmap().IsLoopback()
}

// config returns etcd's own settings, for one member. Etcd itself does not listen:
// there is no other member, though it insists on an address for them, and Server
// serves the clients.
func (s *Server) config(o Options) *embed.Config {
	c := embed.NewConfig()
	c.Name, c.Dir = "tulle", o.Dir
	c.ListenPeerUrls, c.AdvertisePeerUrls = nil, []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	c.ListenClientUrls, c.AdvertiseClientUrls = nil, []url.URL{}
	if s.clients.url.Host != "" {
		c.AdvertiseClientUrls = []url.URL{*s.clients.endpoint()}
	}
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(newLogger(s.life))
	c.EnableGRPCGateway = false
	// What a node writes is small and seldom; no node reads old revisions.
	c.AutoCompactionMode, c.AutoCompactionRetention = "periodic", "1h"
	return c
}

// explain returns why etcd did not start, and how to fix that.
func explain(err error, o Options) error {
	if text := err.Error(); strings.HasPrefix(text, "version ") && strings.HasSuffix(text, "is not supported") {
		return fmt.Errorf("etcd's data in %s are of a newer etcd; run a tulle-etcd as new as the one that wrote them, or restore an older backup: %w", o.Dir, err)
	}
	return fmt.Errorf("start etcd in %s: %w", o.Dir, err)
}

// Endpoint returns the URL at which clients on this host find it.
func (s *Server) Endpoint() string { return s.clients.endpoint().String() }

// stopLimit is how long Stop takes at most.
const stopLimit = 4 * time.Second

// Done is closed when the etcd ends, by Stop or by itself.
func (s *Server) Done() <-chan struct{} { return s.done }

// Stop disconnects all clients, stops the etcd and keeps its data. After an error
// parts of it still run, and end with the process. Even then no acknowledged write is
// lost: etcd answers a write after it has synced its log.
func (s *Server) Stop() error {
	s.life.end()
	if !within(stopLimit, func() {
		s.clients.stop()
		s.etcd.Close()
	}) {
		return fmt.Errorf("etcd in %s has not ended within %s", s.etcd.Config().Dir, stopLimit)
	}
	return nil
}

// within runs do, and waits until it ends or limit has passed. It reports whether do
// has ended.
func within(limit time.Duration, do func()) bool {
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	select {
	case <-done:
		return true
	case <-time.After(limit):
		return false
	}
}
