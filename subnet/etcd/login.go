package etcd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// login authenticates to etcd with a token. etcd issues one for a user and a
// password. It rejects a token after a restart, some minutes after its last use, or
// after a change of users. login reads the password for each new token. So a new
// password in the file is used as soon as the old one fails.
type login struct {
	options Options
	turn    chan struct{} // a lock: holds one value while the fields below are in use
	token   string
	known   bool // token is valid; it is "" if etcd has no users
}

// newLogin returns nil without a user name.
func newLogin(o Options) (*login, error) {
	if o.Username == "" {
		return nil, nil
	}
	l := &login{options: o, turn: make(chan struct{}, 1)}
	_, err := l.password()
	return l, err
}

const (
	authenticate    = "/etcdserverpb.Auth/Authenticate"
	longestPassword = 4096 // bytes
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

// get returns the token, and requests one if there is none.
func (l *login) get(ctx context.Context, conn *grpc.ClientConn) (string, error) {
	if err := l.take(ctx); err != nil {
		return "", err
	}
	defer l.give()
	if l.known {
		return l.token, nil
	}
	password, err := l.password()
	if err != nil {
		return "", err
	}
	request := &etcdserverpb.AuthenticateRequest{Name: l.options.Username, Password: password}
	r, err := etcdserverpb.NewAuthClient(conn).Authenticate(ctx, request, grpc.WaitForReady(true))
	switch {
	case errors.Is(rpctypes.Error(err), rpctypes.ErrAuthNotEnabled):
		l.token = ""
	case err != nil:
		return "", err
	default:
		l.token = r.Token
	}
	l.known = true
	return l.token, nil
}

// drop discards the token if it still is old.
func (l *login) drop(ctx context.Context, old string) {
	if l.take(ctx) != nil {
		return
	}
	defer l.give()
	l.known = l.known && l.token != old
}

// forget discards the token.
func (l *login) forget(ctx context.Context) {
	if l.take(ctx) != nil {
		return
	}
	defer l.give()
	l.known = false
}

func (l *login) take(ctx context.Context) error {
	select {
	case l.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *login) give() { <-l.turn }

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
		l.drop(ctx, token)
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
