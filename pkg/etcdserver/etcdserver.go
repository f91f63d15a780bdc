package etcdserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"google.golang.org/grpc"
)

// Options say how the etcd is to run.
type Options struct {
	Dir string // where its data is kept; nobody else may look inside
	// Listen is a URL for clients: http://127.0.0.1:2379, https, or unix and a
	// path. Port 0 is any.
	Listen string
	// Advertise is the address that clients find it at where Listen is for all
	// addresses, like 0.0.0.0.
	Advertise netip.Addr
	// CertFile and KeyFile are what it shows with https, CAFile is whose
	// clients it serves: anybody, if it is empty.
	CertFile, KeyFile, CAFile string
}

// Server is a running etcd of one member.
type Server struct {
	etcd    *embed.Etcd
	listen  *url.URL
	serving chan *grpc.Server // holds what serves clients
	life    *life
}

// Start runs an etcd and waits until it answers. After an error that data are to
// blame for, or when ctx ends, a part of it may be left hanging, so that this
// process cannot use the folder any more.
func Start(ctx context.Context, o Options) (*Server, error) {
	s := &Server{serving: make(chan *grpc.Server, 1), life: newLife()}
	var err error
	if s.listen, err = parse(o.Listen); err != nil {
		return nil, err
	}
	if err := private(o.Dir); err != nil {
		return nil, err
	}
	result := make(chan error, 1)
	go func() {
		defer s.life.recover()
		var err error
		s.etcd, err = embed.StartEtcd(s.config(o))
		result <- err
	}()
	select {
	case err = <-result:
	case <-ctx.Done():
		return nil, fmt.Errorf("start etcd in %s: %w; perhaps another process uses that folder", o.Dir, ctx.Err())
	case <-s.life.over:
		if strings.Contains(s.life.why, syscall.ENOSPC.Error()) {
			return nil, fmt.Errorf("etcd in %s: %s; make room, it takes some 100 MB", o.Dir, s.life.why)
		}
		return nil, fmt.Errorf("etcd's data in %s cannot be used: %s; restore a backup of that folder, or move it away to begin with an empty store", o.Dir, s.life.why)
	}
	if err != nil {
		return nil, s.explain(err, o)
	}
	select {
	case <-s.etcd.Server.ReadyNotify():
		s.life.begin()
		return s, nil
	case err = <-s.etcd.Err():
		err = fmt.Errorf("etcd in %s: %w", o.Dir, err)
	case <-ctx.Done():
		err = ctx.Err()
	}
	s.Stop()
	return nil, err
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

// private has dir be there, for us alone.
func private(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("etcd's folder: %w", err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return fmt.Errorf("etcd's folder: %w", err)
	}
	if n := len(peerSocket(dir)) - longestSocket; n > 0 {
		return fmt.Errorf("etcd's folder %s: its path is %d bytes too long for a socket; give a shorter --state-dir", dir, n)
	}
	return nil
}

func peerSocket(dir string) string { return filepath.Join(dir, "peer.sock") }

// longestSocket is what the kernel takes of a path.
const longestSocket = 107

// config is for one member: what others would speak to it through is a socket
// that nobody but us can reach, though etcd wants it to have a port.
func (s *Server) config(o Options) *embed.Config {
	c := embed.NewConfig()
	c.Name, c.Dir = "tulle", o.Dir
	// Etcd takes a peer's socket from where other URLs have the host. By a path it
	// would listen to everybody on this machine, at a name of the kernel's choice.
	c.ListenPeerUrls = []url.URL{{Scheme: "unix", Host: peerSocket(o.Dir)}}
	c.AdvertisePeerUrls = []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	c.ListenClientUrls, c.AdvertiseClientUrls = []url.URL{*s.listen}, []url.URL{}
	if s.listen.Host != "" {
		c.AdvertiseClientUrls = []url.URL{*reach(s.listen, s.listen.Port(), o.Advertise)}
	}
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(newLogger(s.life))
	c.ClientTLSInfo = transport.TLSInfo{
		CertFile: o.CertFile, KeyFile: o.KeyFile,
		TrustedCAFile: o.CAFile, ClientCertAuth: o.CAFile != "",
	}
	c.EnableGRPCGateway = false
	c.ServiceRegister = func(g *grpc.Server) { s.serving <- g }
	// What a node writes is small and seldom; old revisions are of use to nobody.
	c.AutoCompactionMode, c.AutoCompactionRetention = "periodic", "1h"
	return c
}

// reach is where a client finds what listens at u: at the loopback or where it
// was told, if u is for all addresses.
func reach(u *url.URL, port string, advertise netip.Addr) *url.URL {
	out := *u
	host := u.Hostname()
	if host == "" && port == "" { // a socket
		return &out
	}
	a, err := netip.ParseAddr(host)
	if host == "" || err == nil && a.IsUnspecified() {
		host = "127.0.0.1"
		if advertise.IsValid() {
			host = advertise.String()
		}
	}
	out.Host = net.JoinHostPort(host, port)
	return &out
}

// explain is why etcd did not start, in words for who has to mend it.
func (s *Server) explain(err error, o Options) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("etcd cannot listen at %s, where something else does already, perhaps another etcd; stop that, or give another --etcd-listen: %w", s.listen, err)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("etcd cannot listen at %s, which is no address of this host; give another --etcd-listen: %w", s.listen, err)
	}
	if text := err.Error(); strings.HasPrefix(text, "version ") && strings.HasSuffix(text, "is not supported") {
		return fmt.Errorf("etcd's data in %s are of a newer etcd; run a tulled as new as the one that wrote them, or restore an older backup: %w", o.Dir, err)
	}
	return fmt.Errorf("start etcd in %s: %w", o.Dir, err)
}

// Endpoint is where clients on this host find it.
func (s *Server) Endpoint() string {
	port := ""
	if a, ok := s.etcd.Clients[0].Addr().(*net.TCPAddr); ok {
		port = fmt.Sprint(a.Port)
	}
	return reach(s.listen, port, netip.Addr{}).String()
}

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

// Stop ends it, and keeps its data. It waits for no client.
func (s *Server) Stop() {
	s.life.end()
	select {
	case g := <-s.serving:
		g.Stop()
	default: // it has not come to serve
	}
	s.etcd.Close()
}
