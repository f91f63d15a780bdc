package etcd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// login authenticates to etcd with a token. etcd issues one for a user and a
// password. It rejects a token after a restart, some minutes after its last use, or
// after a change of users. login reads the password for each new token. So a new
// password in the file is used as soon as the old one fails.
type login struct {
	options Options

	mu     sync.Mutex
	token  string
	known  bool          // token is valid; it is "" if etcd has no users
	asking *request      // for the next token; nil without one
	limit  time.Duration // of that request
}

// request is one request for a token.
type request struct {
	cancel context.CancelFunc
	sent   atomic.Bool   // there was a connection to send it on
	done   chan struct{} // closed once token and err are set
	token  string
	err    error
}

// GetRequestMetadata implements credentials.PerRPCCredentials. gRPC calls it when it has
// a connection for the request.
func (r *request) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	r.sent.Store(true)
	return nil, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials.
func (*request) RequireTransportSecurity() bool { return false }

// newLogin returns nil without a user name.
func newLogin(o Options) (*login, error) {
	if o.Username == "" {
		return nil, nil
	}
	l := &login{options: o, limit: firstLogin}
	_, err := l.password()
	return l, err
}

const (
	authenticate    = "/etcdserverpb.Auth/Authenticate"
	longestPassword = 4096 // bytes

	// A request for a token gets firstLogin. The limit doubles after each request that was
	// sent and timed out, until one succeeds.
	firstLogin = firstTry
	lastLogin  = 2 * time.Minute
)

func (l *login) password() (string, error) {
	if l.options.PasswordFile == "" {
		return l.options.Password, nil
	}
	password, err := passwordIn(l.options.PasswordFile)
	if err != nil {
		return "", fmt.Errorf("%s: %w", l.options.Names.PasswordFile, err)
	}
	return password, nil
}

func passwordIn(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, longestPassword+1))
	if err != nil {
		return "", err
	}
	password := strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r")
	switch {
	case len(text) > longestPassword:
		return "", fmt.Errorf("%s has more than %d bytes; not a password", name, longestPassword)
	case password == "":
		return "", fmt.Errorf("%s is empty", name)
	case strings.ContainsAny(password, "\n\x00"):
		return "", fmt.Errorf("%s has more than one line", name)
	}
	return password, nil
}

// get returns the token, and requests one if there is none. A request that was sent goes
// on after ctx ends, and the next call waits for the same one. An etcd checks passwords
// slowly, on purpose, also those whose client is gone. If a whole cluster logs in again
// after a restart of etcd, requests that end with each try would keep it too busy to
// answer any.
func (l *login) get(ctx context.Context, conn grpc.ClientConnInterface) (string, error) {
	l.mu.Lock()
	if l.known {
		defer l.mu.Unlock()
		return l.token, nil
	}
	r := l.asking
	if r == nil {
		password, err := l.password()
		if err != nil {
			l.mu.Unlock()
			return "", err
		}
		r = l.ask(conn, password)
	}
	l.mu.Unlock()
	select {
	case <-r.done:
		return r.token, r.err
	case <-ctx.Done():
	}
	if r.sent.Load() {
		return "", ctx.Err()
	}
	r.cancel()
	<-r.done // it says why there was no connection
	return r.token, r.err
}

// ask begins a request for a token. It ends when the store closes, if not sooner.
func (l *login) ask(conn grpc.ClientConnInterface, password string) *request {
	limit := l.limit
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	r := &request{cancel: cancel, done: make(chan struct{})}
	l.asking = r
	go func() {
		defer cancel()
		question := &etcdserverpb.AuthenticateRequest{Name: l.options.Username, Password: password}
		answer, err := etcdserverpb.NewAuthClient(conn).Authenticate(ctx, question, grpc.WaitForReady(true), grpc.PerRPCCredentials(r))
		switch code := status.Code(err); {
		case errors.Is(rpctypes.Error(err), rpctypes.ErrAuthNotEnabled):
		case code == codes.Canceled: // by one call; others may try again
			r.err = status.Error(codes.Unavailable, status.Convert(err).Message())
		case err != nil:
			r.err = err
		default:
			r.token = answer.Token
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		defer close(r.done)
		if l.asking != r { // the password has changed since
			return
		}
		l.asking = nil
		switch {
		case r.err == nil:
			l.token, l.known, l.limit = r.token, true, firstLogin
		case r.sent.Load() && status.Code(r.err) == codes.DeadlineExceeded:
			l.limit = min(2*limit, lastLogin)
		}
	}()
	return r
}

// drop discards the token if it still is old.
func (l *login) drop(old string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.known = l.known && l.token != old
}

// forget discards the token.
func (l *login) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.known = false
}

// changed discards the token, and the request for one with the password of before.
func (l *login) changed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.known, l.asking = false, nil
}

// unary is a grpc.UnaryClientInterceptor. It retries a call once, with a new token,
// if etcd rejects the token.
func (l *login) unary(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
	if method == authenticate {
		return invoke(ctx, method, request, reply, conn, options...)
	}
	for again := false; ; again = true {
		token, err := l.get(ctx, conn)
		if err != nil {
			return err
		}
		err = invoke(show(ctx, token), method, request, reply, conn, options...)
		if again || !refused(err) {
			return err
		}
		l.drop(token)
	}
}

// stream is a grpc.StreamClientInterceptor. A stream keeps the token that it was
// opened with.
func (l *login) stream(ctx context.Context, d *grpc.StreamDesc, conn *grpc.ClientConn, method string, s grpc.Streamer, options ...grpc.CallOption) (grpc.ClientStream, error) {
	token, err := l.get(ctx, conn)
	if err != nil {
		return nil, err
	}
	return s(show(ctx, token), d, conn, method, options...)
}

func show(ctx context.Context, token string) context.Context {
	if token == "" {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, rpctypes.TokenFieldNameGRPC, token)
}

// refused reports whether err is about the token. A watch returns such an error as
// text only.
func refused(err error) bool {
	if err == nil {
		return false
	}
	for _, e := range []error{rpctypes.ErrGRPCInvalidAuthToken, rpctypes.ErrGRPCAuthOldRevision, rpctypes.ErrGRPCUserEmpty} {
		if strings.Contains(err.Error(), rpctypes.ErrorDesc(e)) {
			return true
		}
	}
	return false
}
