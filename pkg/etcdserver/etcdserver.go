package etcdserver

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path"
	"strings"
	"syscall"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
)

// Options say how the etcd runs.
type Options struct {
	Dir string // holds its data; only this user may open it
	// Listen is a URL for clients: http://127.0.0.1:2379, https, or unix and a
	// path. Port 0 is any.
	Listen string
	// CertFile and KeyFile are what it shows with https. It serves only clients
	// with a certificate of CAFile's, or any client if that is empty.
	CertFile, KeyFile, CAFile string
}

// Server is a running etcd of one member.
type Server struct {
	etcd    *embed.Etcd
	clients *clients
	life    *life
}

// Start runs an etcd and waits until it answers. After an error in the data, or
// when ctx ends, parts of it may go on, and this process cannot use the folder
// again.
func Start(ctx context.Context, o Options) (*Server, error) {
	u, err := parse(o.Listen)
	if err != nil {
		return nil, err
	}
	if err := private(o.Dir); err != nil {
		return nil, err
	}
	s := &Server{life: newLife()}
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
	s.clients.serve(s.etcd)
	s.life.begin()
	return s, nil
}

// begin starts the etcd itself and waits until it is ready.
func (s *Server) begin(ctx context.Context, o Options) (*embed.Etcd, error) {
	type result struct {
		etcd *embed.Etcd
		err  error
	}
	started := make(chan result)
	go func() {
		defer s.life.recover()
		e, err := embed.StartEtcd(s.config(o))
		select {
		case started <- result{e, err}:
		case <-ctx.Done():
			s.life.end()
			if err == nil {
				e.Close()
			}
		}
	}()
	var e *embed.Etcd
	select {
	case r := <-started:
		if r.err != nil {
			return nil, explain(r.err, o)
		}
		e = r.etcd
	case <-ctx.Done():
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
		e.Close()
		return nil, ctx.Err()
	}
}

func parse(listen string) (*url.URL, error) {
	u, err := url.Parse(listen)
	switch {
	case err != nil:
		return nil, fmt.Errorf("--etcd-listen: %w", err)
	case (u.Scheme == "http" || u.Scheme == "https") && u.Port() != "" && u.Path == "",
		(u.Scheme == "unix" || u.Scheme == "unixs") && u.Host == "" && path.IsAbs(u.Path):
		return u, nil
	}
	return nil, fmt.Errorf("--etcd-listen: %s is no place to listen at; give one like http://127.0.0.1:2379 or unix:///run/tulle/etcd.sock", u.Redacted())
}

// private makes dir, which only this user may open.
func private(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("etcd's folder: %w", err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return fmt.Errorf("etcd's folder: %w", err)
	}
	return nil
}

// config returns etcd's own settings, for one member. It listens to nobody: there
// is no other member, though etcd insists on an address for them, and clients are
// served by Server itself.
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
	// What a node writes is small and seldom; old revisions are of use to nobody.
	c.AutoCompactionMode, c.AutoCompactionRetention = "periodic", "1h"
	return c
}

// explain returns why etcd did not start, in words for who has to mend it.
func explain(err error, o Options) error {
	if text := err.Error(); strings.HasPrefix(text, "version ") && strings.HasSuffix(text, "is not supported") {
		return fmt.Errorf("etcd's data in %s are of a newer etcd; run a tulled as new as the one that wrote them, or restore an older backup: %w", o.Dir, err)
	}
	return fmt.Errorf("start etcd in %s: %w", o.Dir, err)
}

// Endpoint returns the URL at which clients on this host find it.
func (s *Server) Endpoint() string { return s.clients.endpoint().String() }

// Seed writes key, unless there is something already beside it in its folder or
// below. It says whether it did.
func (s *Server) Seed(ctx context.Context, key, value string) (seeded bool, err error) {
	client := v3client.New(s.etcd.Server)
	defer client.Close()
	folder := path.Dir(key) + "/"
	r, err := client.Txn(ctx).
		If(clientv3.Compare(clientv3.CreateRevision(folder), "=", 0).WithPrefix()).
		Then(clientv3.OpPut(key, value)).
		Commit()
	if err != nil {
		return false, fmt.Errorf("write %s to etcd: %w", key, err)
	}
	return r.Succeeded, nil
}

// stopLimit is how long Stop takes at most.
const stopLimit = 4 * time.Second

// Stop cuts off all clients, ends the etcd and keeps its data. After an error
// parts of it still run, and end with the process. Nothing that was acknowledged
// is lost by that either: etcd answers a write after it has synced its log.
func (s *Server) Stop() error {
	s.life.end()
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		s.clients.stop()
		s.etcd.Close()
	}()
	select {
	case <-stopped:
		return nil
	case <-time.After(stopLimit):
		return fmt.Errorf("etcd in %s has not ended within %s", s.etcd.Config().Dir, stopLimit)
	}
}
