package etcd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

var (
	// errSilent is an etcd that accepts a connection and does not answer.
	errSilent = errors.New("connected, but no answer")
	// errPlain is a server that ends the TLS handshake.
	errPlain = errors.New("connected, but no TLS handshake")
	// errTLS is a server that ends a connection without TLS.
	errTLS = errors.New("connected without TLS, and disconnected")
	// errHangsUp is a server that ends a connection with TLS without a reason.
	errHangsUp = errors.New("connected, and disconnected")
)

// reach keeps why the last connection to etcd failed. gRPC reports that only as text.
// It reports nothing if a write fails before it has read the server's reason.
type reach struct {
	mu  sync.Mutex
	err error // nil once etcd has answered
}

func (r *reach) note(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = err
}

func (r *reach) last() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// dial returns the option that records in r why connections fail. As in etcd's own
// client, the endpoints decide whether connections use TLS.
func (r *reach) dial(o Options, config *tls.Config) grpc.DialOption {
	secure := config != nil
	if len(o.Endpoints) > 0 {
		switch scheme, _, _ := strings.Cut(o.Endpoints[0], ":"); scheme {
		case "http", "unix":
			secure = false
		case "https", "unixs":
			secure = true
		}
	}
	if !secure {
		return grpc.WithTransportCredentials(handshakes{TransportCredentials: insecure.NewCredentials(), reach: r})
	}
	if config == nil {
		config = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	return grpc.WithTransportCredentials(handshakes{credentials.NewTLS(config), r, config, o.CAFile, o.Names})
}

// handshakes records in reach why a handshake fails.
type handshakes struct {
	credentials.TransportCredentials
	reach  *reach
	config *tls.Config // nil without TLS
	caFile string
	names  Names
}

// ClientHandshake implements credentials.TransportCredentials.
func (h handshakes) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	through := h.TransportCredentials
	if h.config != nil && h.caFile != "" {
		host, _, err := net.SplitHostPort(authority)
		if err != nil {
			host = authority
		}
		through = credentials.NewTLS(verifying(h.config, host, h.caFile, h.names))
	}
	c, info, err := through.ClientHandshake(ctx, authority, raw)
	var record tls.RecordHeaderError
	switch {
	case err == nil:
		return &connection{Conn: c, reach: h.reach, secure: h.config != nil}, info, nil
	case errors.Is(err, context.Canceled):
		return c, info, err
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		err = errSilent
	case errors.Is(err, io.EOF), errors.Is(err, unix.ECONNRESET), errors.Is(err, unix.EPIPE), errors.As(err, &record):
		err = errPlain
	}
	h.reach.note(fmt.Errorf("%s: %w", raw.RemoteAddr(), err))
	return c, info, err
}

// Clone implements credentials.TransportCredentials.
func (h handshakes) Clone() credentials.TransportCredentials {
	return handshakes{h.TransportCredentials.Clone(), h.reach, h.config, h.caFile, h.names}
}

// connection records in reach whether the server answers, or why not.
type connection struct {
	net.Conn
	reach  *reach
	secure bool
	heard  atomic.Bool // the server has sent something
}

// Read implements io.Reader.
func (c *connection) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 && !c.heard.Swap(true) {
		c.reach.note(nil)
	}
	if err != nil && !c.heard.Load() {
		c.note(err)
	}
	return n, err
}

// alertWait is how long a failed write waits for the server's reason.
const alertWait = 200 * time.Millisecond

// Write implements io.Writer. If it fails, it reads the reason that the server may have
// sent before it ended the connection.
func (c *connection) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if err != nil && !c.heard.Load() && !errors.Is(err, net.ErrClosed) {
		_ = c.SetReadDeadline(time.Now().Add(alertWait))
		if _, why := c.Conn.Read(make([]byte, 1)); why != nil && !errors.Is(why, os.ErrDeadlineExceeded) {
			err = why
		}
		c.note(err)
	}
	return n, err
}

func (c *connection) note(err error) {
	var alert tls.AlertError
	switch {
	case errors.As(err, &alert):
	case strings.Contains(err.Error(), "remote error: tls: "): // an alert, in the words of tls.Conn
	case errors.Is(err, net.ErrClosed), errors.Is(err, os.ErrDeadlineExceeded): // gRPC gave up
		err = errSilent
	case errors.Is(err, io.EOF), errors.Is(err, unix.ECONNRESET), errors.Is(err, unix.EPIPE):
		err = errHangsUp
		if !c.secure {
			err = errTLS
		}
	}
	c.reach.note(fmt.Errorf("%s: %w", c.RemoteAddr(), err))
}
