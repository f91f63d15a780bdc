package kube

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/klog/v2"
)

const (
	// streamSilence is how long a streamed list may make no progress. A loaded server
	// queues a request for up to 15 seconds before it answers 429, which is no reason
	// to fall back.
	streamSilence = 20 * time.Second
	// streamRetry is how long lists come in pages after a streamed one failed. By then
	// the server may be upgraded.
	streamRetry = 6 * time.Hour
)

// streaming remembers whether the API server streams lists. A server without
// WatchList refuses to, in words of its own; so does one whose store cannot report
// progress, and a proxy may drop the stream.
type streaming struct {
	mu     sync.Mutex
	failed time.Time // when a streamed list failed and one in pages did not
	logged bool
}

// usable reports whether to ask for a streamed list.
func (s *streaming) usable() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed.IsZero() || time.Since(s.failed) > streamRetry
}

// fellBack records that a list in pages succeeded where a streamed one had failed.
func (s *streaming) fellBack(reason error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed = time.Now()
	if !s.logged {
		s.logged = true
		klog.InfoS("Fell back to lists in pages; the API server does not stream them", "reason", reason)
	}
}

// forget makes the next list a streamed one: the last one succeeded, or the server is
// another.
func (s *streaming) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed, s.logged = time.Time{}, false
}

// errPages restarts a session at once, with a list in pages.
var errPages = errors.New("the list must come in pages")

// errShort is the failure of a stream that ends before its list does.
var errShort = errors.New("the stream ended before its list was complete")

// unlisted returns why a streamed list failed, or errPages where a list in pages may
// succeed: whatever the server said, unless it says the same to every request, and
// whenever it went silent. A server that could not be reached refused nothing.
func (f *follower) unlisted(ctx context.Context, err error) error {
	_, unreached := errors.AsType[unconnected](err)
	err = f.after(ctx, err)
	switch silent := errors.Is(err, errSilent); {
	case unreached, ctx.Err() != nil && !silent, errors.Is(err, errForm), errors.Is(err, errAgain):
		return err
	case code(err) == http.StatusUnauthorized, code(err) == http.StatusTooManyRequests:
		return err
	case silent:
		f.trouble.Failed(f.what, err) // the status shows what the node waits for
		f.watched(false)
	}
	f.unstreamed = err
	return errPages
}

// unconnected is a request's failure before there was a connection to send it on.
type unconnected struct{ error }

func (u unconnected) Unwrap() error { return u.error }

// roundTrip sends a request, and marks a failure to connect as such.
func roundTrip(h *http.Client, r *http.Request) (*http.Response, error) {
	var connected atomic.Bool
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }}
	answer, err := h.Do(r.WithContext(httptrace.WithClientTrace(r.Context(), trace)))
	if err != nil && !connected.Load() {
		err = unconnected{err}
	}
	return answer, err
}
