package etcd

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"k8s.io/klog/v2"

	"github.com/tulle-net/tulle/subnet"
)

const (
	callLimit = 10 * time.Second // of one call
	firstWait = 100 * time.Millisecond
	lastWait  = 15 * time.Second
)

// retry does f until it succeeds, fails for good or ctx ends. Each try has a
// time of its own.
func (s *Store) retry(ctx context.Context, what string, f func(context.Context) error) error {
	for failures := 1; ; failures++ {
		try, cancel := context.WithTimeout(ctx, callLimit)
		err := f(try)
		cancel()
		switch {
		case err == nil:
			s.trouble.over(what)
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case final(err):
			return err
		}
		s.trouble.failed(what, s.attempt.why(err))
		if err := s.pause(ctx, failures); err != nil {
			return err
		}
	}
}

// final says whether to try again would be of no use.
func final(err error) bool {
	for _, e := range []error{subnet.ErrOutOfSubnets, subnet.ErrTaken, subnet.ErrSameAddress, subnet.ErrValue} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// pause waits after so many failures in a row: half of the time at least, so
// that nodes which failed together do not come back together.
func (s *Store) pause(ctx context.Context, failures int) error {
	d := min(firstWait<<min(failures-1, 10), lastWait)
	return sleep(ctx, d/2+rand.N(d/2))
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// attempt is how the last attempt to reach etcd failed, which the client keeps
// to itself when the time is up.
type attempt struct {
	mu  sync.Mutex
	err error
}

// note is a grpc.UnaryClientInterceptor.
func (a *attempt) note(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
	err := invoke(ctx, method, request, reply, conn, options...)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.err = err
	return err
}

// why is err, with what stands behind it where the time was up.
func (a *attempt) why(err error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if errors.Is(err, context.DeadlineExceeded) && a.err != nil {
		return fmt.Errorf("%w: %w", err, a.err)
	}
	return err
}

// trouble has each thing that goes wrong told once, and its end.
type trouble struct {
	mu  sync.Mutex
	now map[string]string // what goes wrong, and how
}

func (t *trouble) failed(what string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	why := explain(err)
	if t.now[what] == why {
		return
	}
	if t.now == nil {
		t.now = make(map[string]string)
	}
	t.now[what] = why
	klog.ErrorS(nil, what+" does not work; trying again", "reason", why)
}

func (t *trouble) over(what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, was := t.now[what]; was {
		delete(t.now, what)
		klog.InfoS(what + " works again")
	}
}

const hangsUp = "etcd hangs up; perhaps it wants another certificate than --etcd-certfile, or TLS where there is none, or the other way about"

// explain is err in words for who has to mend it.
func explain(err error) string {
	text := err.Error()
	for _, known := range []struct{ sign, hint string }{
		{"certificate signed by unknown authority", "etcd's certificate is signed by none of the authorities in --etcd-cafile"},
		{"certificate has expired", "a certificate has expired or is not valid yet, or the clock is wrong"},
		{"x509:", "etcd's certificate is not believed"},
		{"tls: certificate required", "etcd wants a client certificate; give --etcd-certfile and --etcd-keyfile"},
		{"remote error: tls", "etcd does not believe the certificate in --etcd-certfile"},
		{"broken pipe", hangsUp},
		{"connection reset", hangsUp},
		{"error reading server preface", hangsUp},
		{"authentication failed", "etcd refuses the name or the password of --etcd-username"},
		{"user name is empty", "etcd wants a name and a password; give --etcd-username and --etcd-password"},
		{"permission denied", "the etcd user may not read and write the network's keys; grant it readwrite on the prefix"},
		{"connection refused", "nothing listens at --etcd-endpoints"},
		{"context deadline exceeded", "no answer in time"},
	} {
		if strings.Contains(text, known.sign) {
			return known.hint + " (" + text + ")"
		}
	}
	return text
}
