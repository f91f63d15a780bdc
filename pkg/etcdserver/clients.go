package etcdserver

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3rpc"
	"golang.org/x/net/netutil"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
)

// clients serves etcd's clients over gRPC. Etcd's own listeners put gRPC behind
// net/http, where grpc.Server.Stop can wait forever: it closes the streams that it
// knows, and a client whose watch breaks opens the next one on the same connection
// before Stop has returned. clients owns each connection, and closes it.
type clients struct {
	url      *url.URL
	tls      *tls.Config // nil where nothing is encrypted
	listener *listener

	mu     sync.Mutex
	server *grpc.Server // nil until it serves
}

// listen opens the socket; a client that connects before serve waits in its queue.
func listen(u *url.URL, certificate transport.TLSInfo) (*clients, error) {
	c := &clients{url: u}
	if u.Scheme == "https" || u.Scheme == "unixs" {
		if certificate.Empty() {
			return nil, fmt.Errorf("%s needs a certificate and its key", u.Scheme)
		}
		var err error
		if c.tls, err = certificate.ServerConfig(); err != nil {
			return nil, fmt.Errorf("read the certificates: %w", err)
		}
	}
	l, err := bind(u)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("etcd cannot listen at %s, where another process listens, perhaps another etcd; stop that, or listen elsewhere: %w", u, err)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return nil, fmt.Errorf("etcd cannot listen at %s, which is no address of this host; listen elsewhere: %w", u, err)
	case err != nil:
		return nil, fmt.Errorf("etcd cannot listen at %s: %w", u, err)
	}
	c.listener = newListener(netutil.LimitListener(l, mostConnections()))
	return c, nil
}

func bind(u *url.URL) (net.Listener, error) {
	if u.Host != "" {
		return net.Listen("tcp", u.Host)
	}
	if err := removeStale(u.Path); err != nil {
		return nil, err
	}
	return net.Listen("unix", u.Path)
}

// removeStale removes a socket that a process left behind when it crashed.
func removeStale(path string) error {
	switch info, err := os.Lstat(path); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return errors.New("something that is not a socket is there; move it away, or listen elsewhere")
	}
	if conn, err := net.Dial("unix", path); err == nil {
		conn.Close()
		return syscall.EADDRINUSE
	}
	return os.Remove(path)
}

// mostConnections returns how many connections leave enough descriptors for
// etcd's own files.
func mostConnections() int {
	const reserve = 150
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return reserve
	}
	return int(max(limit.Cur, 2*reserve)) - reserve
}

// endpoint returns the URL at which clients on this host find what listens: on
// loopback, where it listens at all addresses.
func (c *clients) endpoint() *url.URL {
	out := *c.url
	bound, ok := c.listener.Addr().(*net.TCPAddr)
	if !ok { // a socket
		return &out
	}
	host := out.Hostname()
	if a, err := netip.ParseAddr(host); host == "" || err == nil && a.IsUnspecified() {
		host = "127.0.0.1"
	}
	out.Host = net.JoinHostPort(host, strconv.Itoa(bound.Port))
	return &out
}

// serve begins to serve clients from e, which is ready. The channel is closed when
// that has ended.
func (c *clients) serve(e *embed.Etcd) (ended <-chan struct{}) {
	const handshake = 10 * time.Second
	config := e.Config()
	g := v3rpc.Server(e.Server, c.tls, nil,
		grpc.ConnectionTimeout(handshake),
		// A handler that outlives Stop would read from a closed database.
		grpc.WaitForHandlers(true),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: config.GRPCKeepAliveMinTime}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: config.GRPCKeepAliveInterval, Timeout: config.GRPCKeepAliveTimeout}),
	)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.server = g
	over := make(chan struct{})
	go func() {
		defer close(over)
		_ = g.Serve(c.listener) // Done reports the end
	}()
	return over
}

// stop disconnects all clients and waits until their requests have ended.
func (c *clients) stop() {
	c.listener.cut()
	c.mu.Lock()
	g := c.server
	c.mu.Unlock()
	if g != nil {
		g.Stop()
	}
}

// listener remembers the connections that it accepts, so that cut can close also
// those which grpc.Server does not know yet, in the middle of a TLS handshake.
type listener struct {
	net.Listener

	mu    sync.Mutex
	conns map[*conn]struct{} // nil after cut
}

func newListener(l net.Listener) *listener {
	return &listener{Listener: l, conns: make(map[*conn]struct{})}
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &conn{accepted, l}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conns == nil {
		accepted.Close()
		return nil, net.ErrClosed
	}
	l.conns[c] = struct{}{}
	return c, nil
}

// cut closes the listener and every connection, and accepts no more.
func (l *listener) cut() {
	l.Listener.Close()
	l.mu.Lock()
	conns := l.conns
	l.conns = nil
	l.mu.Unlock()
	for c := range conns {
		c.Conn.Close()
	}
}

// conn is a connection that its listener forgets when it is closed.
type conn struct {
	net.Conn
	from *listener
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.from.mu.Lock()
	delete(c.from.conns, c)
	c.from.mu.Unlock()
	return c.Conn.Close()
}
