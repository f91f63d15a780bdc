package etcd

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tulle-net/tulle/pkg/test/bubbletest"
)

// slowEtcd checks a password for some time, also if no call waits for the result.
type slowEtcd struct {
	grpc.ClientConnInterface
	check time.Duration
	cut   bool     // it cannot be reached
	busy  bool     // it gives up
	asked []string // the password of each request
}

func (e *slowEtcd) Invoke(ctx context.Context, _ string, request, reply any, options ...grpc.CallOption) error {
	e.asked = append(e.asked, request.(*etcdserverpb.AuthenticateRequest).Password)
	if e.cut {
		<-ctx.Done()
		return status.Error(codes.Canceled, "connection refused")
	}
	for _, o := range options {
		if c, ok := o.(grpc.PerRPCCredsCallOption); ok {
			if _, err := c.Creds.GetRequestMetadata(ctx); err != nil {
				return err
			}
		}
	}
	if e.busy {
		return status.Error(codes.Unavailable, "etcdserver: request timed out")
	}
	select {
	case <-time.After(e.check):
		reply.(*etcdserverpb.AuthenticateResponse).Token = "token of " + request.(*etcdserverpb.AuthenticateRequest).Password
		return nil
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
}

// tries makes tries of a quarter of a minute until there is a token, and returns it with
// the number of tries.
func (e *slowEtcd) tries(l *login, most int) (token string, n int) {
	for n = 1; n <= most; n++ {
		ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
		token, err := l.get(ctx, e)
		cancel()
		if err == nil {
			return token, n
		}
	}
	return "", most
}

// TestSlowLogin: where a check of the password takes longer than a try, the tries still
// come to a token, and few requests are left that no try waits for.
func TestSlowLogin(t *testing.T) {
	for check, most := range map[time.Duration]int{
		time.Second: 1, 4 * time.Second: 1, 12 * time.Second: 3, 50 * time.Second: 5, 100 * time.Second: 6, time.Hour: 14,
	} {
		bubbletest.Test(t, func(t *testing.T) {
			e := &slowEtcd{check: check}
			l := &login{options: Options{Password: "secret"}, limit: firstLogin}
			begun := time.Now()
			token, n := e.tries(l, 80)
			t.Logf("%v: %d tries, %d requests, %v", check, n, len(e.asked), time.Since(begun))
			if (token == "token of secret") != (check < lastLogin) {
				t.Errorf("the token is %q", token)
			}
			if len(e.asked) > most {
				t.Errorf("%v: %d requests, want at most %d", check, len(e.asked), most)
			}
			<-time.After(lastLogin)
			synctest.Wait()
			if l.asking != nil {
				t.Error("a request goes on without an end")
			}
			if e.check = 0; check < lastLogin {
				return
			}
			if _, n := e.tries(l, 1); n != 1 || l.limit != firstLogin {
				t.Errorf("after %d tries the limit is %v", n, l.limit)
			}
		})
	}
}

// TestOnlySentRequestsChangeTheLimit: neither the errors of an overloaded etcd nor a lack of
// connections say how long a check takes.
func TestOnlySentRequestsChangeTheLimit(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		e := &slowEtcd{check: 50 * time.Second}
		l := &login{options: Options{Password: "secret"}, limit: firstLogin}
		limit := func(want time.Duration) {
			t.Helper()
			if l.limit != want {
				t.Errorf("the limit is %v, not %v", l.limit, want)
			}
		}
		e.tries(l, 3)
		<-time.After(lastLogin) // for the last request
		synctest.Wait()
		slow := l.limit
		if slow <= firstLogin {
			t.Fatalf("the limit is %v", slow)
		}
		e.busy = true
		e.tries(l, 3)
		limit(slow)
		e.busy, e.cut = false, true
		if _, err := l.get(t.Context(), e); err == nil {
			t.Error("a token without a connection")
		}
		limit(slow)
		e.cut, e.check = false, time.Second
		if token, _ := e.tries(l, 1); token == "" {
			t.Error("no token")
		}
		limit(firstLogin)
	})
}

// TestLoginWithoutAConnection: a try ends with the reason why there is no connection, and
// other calls do not fail for good.
func TestLoginWithoutAConnection(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		e := &slowEtcd{cut: true}
		l := &login{options: Options{Password: "secret"}, limit: firstLogin}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		other := make(chan error)
		go func() {
			_, err := l.get(t.Context(), e)
			other <- err
		}()
		synctest.Wait()
		_, err := l.get(ctx, e)
		for _, err := range []error{err, <-other} {
			if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "connection refused") {
				t.Error(err)
			}
		}
		e.cut = false
		if token, err := l.get(t.Context(), e); token != "token of secret" || err != nil || len(e.asked) != 2 {
			t.Errorf("%q, %v after %d requests", token, err, len(e.asked))
		}
	})
}

// TestPasswordChangesDuringLogin: the token of the old password is not kept.
func TestPasswordChangesDuringLogin(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		e := &slowEtcd{check: time.Second}
		l := &login{options: Options{Password: "old"}, limit: firstLogin}
		done := make(chan string)
		go func() {
			token, _ := l.get(t.Context(), e)
			done <- token
		}()
		synctest.Wait()
		l.options.Password = "new"
		l.changed()
		if token, err := l.get(t.Context(), e); token != "token of new" || err != nil {
			t.Errorf("%q, %v", token, err)
		}
		if token := <-done; token != "token of old" || l.token != "token of new" {
			t.Errorf("%q, and %q is kept", token, l.token)
		}
	})
}
