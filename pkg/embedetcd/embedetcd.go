// Package embedetcd runs an etcd inside this process.
package embedetcd

import (
	"context"
	"fmt"
	"net/url"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

// Options say how the etcd is to run.
type Options struct {
	Dir    string // where its data is kept
	Listen string // URL for clients, like http://127.0.0.1:2379; port 0 is any
	// CertFile and KeyFile are what it shows with https, CAFile is whose
	// clients it serves: anybody, if it is empty.
	CertFile, KeyFile, CAFile string
}

// Server is a running etcd of one member.
type Server struct {
	etcd   *embed.Etcd
	scheme string
}

// Start runs an etcd and waits until it answers. Its members' port is on the
// loopback, where nobody needs it: there is one member alone.
func Start(ctx context.Context, o Options) (*Server, error) {
	clients, err := url.Parse(o.Listen)
	if err != nil {
		return nil, fmt.Errorf("etcd's address %q: %w", o.Listen, err)
	}
	peers := url.URL{Scheme: "http", Host: "127.0.0.1:0"}
	c := embed.NewConfig()
	c.Name, c.Dir = "tulle", o.Dir
	c.ListenClientUrls, c.AdvertiseClientUrls = []url.URL{*clients}, []url.URL{*clients}
	c.ListenPeerUrls, c.AdvertisePeerUrls = []url.URL{peers}, []url.URL{peers}
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	c.ClientTLSInfo = transport.TLSInfo{
		CertFile: o.CertFile, KeyFile: o.KeyFile,
		TrustedCAFile: o.CAFile, ClientCertAuth: o.CAFile != "",
		Logger: zap.NewNop(),
	}
	// What a node writes is small and seldom; old revisions are of use to nobody.
	c.AutoCompactionMode, c.AutoCompactionRetention = "periodic", "1h"
	e, err := embed.StartEtcd(c)
	if err != nil {
		return nil, fmt.Errorf("start etcd in %s: %w", o.Dir, err)
	}
	s := &Server{e, clients.Scheme}
	select {
	case <-e.Server.ReadyNotify():
		return s, nil
	case err := <-e.Err():
		s.Stop()
		return nil, fmt.Errorf("etcd in %s: %w", o.Dir, err)
	case <-ctx.Done():
		s.Stop()
		return nil, ctx.Err()
	}
}

// Endpoint is where clients find it.
func (s *Server) Endpoint() string { return s.scheme + "://" + s.etcd.Clients[0].Addr().String() }

// Stop ends it, and keeps its data.
func (s *Server) Stop() { s.etcd.Close() }
