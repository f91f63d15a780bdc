package kube

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/subnet"
)

// asksToStream reports whether a request asks for a streamed list.
func asksToStream(r *http.Request) bool { return r.URL.Query().Get("sendInitialEvents") == "true" }

// streamedLists counts the streamed lists that were asked for.
func (f *fake) streamedLists() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, asked := range f.requests {
		if strings.Contains(asked, "sendInitialEvents=true") {
			n++
		}
	}
	return n
}

// unstreamable are the ways in which a server fails to stream a list, and how long
// it takes to notice.
func unstreamable(f *fake) map[string]struct {
	answer func(w http.ResponseWriter, r *http.Request)
	bound  time.Duration
} {
	const atOnce = 5 * time.Second
	type way = struct {
		answer func(w http.ResponseWriter, r *http.Request)
		bound  time.Duration
	}
	begin := func(w http.ResponseWriter) *http.ResponseController {
		typed(w, protobuf+";stream=watch").WriteHeader(http.StatusOK)
		out := http.NewResponseController(w)
		_ = out.Flush()
		return out
	}
	ways := map[string]way{
		"empty body": {func(w http.ResponseWriter, _ *http.Request) { begin(w) }, atOnce},
		"no answer": {func(http.ResponseWriter, *http.Request) {
			panic(http.ErrAbortHandler)
		}, atOnce},
		"cut in the midst": {func(w http.ResponseWriter, _ *http.Request) {
			begin(w)
			_, _ = w.Write(frame(f.t, "ADDED", "Node", &corev1.Node{})[:10])
		}, atOnce},
		"an error event": {func(w http.ResponseWriter, _ *http.Request) {
			begin(w)
			_, _ = w.Write(frame(f.t, "ERROR", "Status", refusalOf(http.StatusInternalServerError, "no progress notifications")))
		}, atOnce},
		"gone": {func(w http.ResponseWriter, r *http.Request) {
			f.fail(w, r, refusalOf(http.StatusGone, "too old"))
		}, atOnce},
		"too new": {func(w http.ResponseWriter, r *http.Request) {
			s := refusalOf(http.StatusGatewayTimeout, "Timeout: Too large resource version")
			s.Details = &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: tooNewCause}}}
			f.fail(w, r, s)
		}, atOnce},
		"a page of a proxy": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(typed(w, "text/html"), "<html>sign in</html>")
		}, atOnce},
		"garbage": {func(w http.ResponseWriter, _ *http.Request) {
			begin(w)
			_, _ = w.Write(bytes.Repeat([]byte{0xff}, 100))
		}, atOnce},
		"silence": {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, streamSilence + atOnce},
		"no bookmark, and heartbeats": {func(w http.ResponseWriter, r *http.Request) {
			out := begin(w)
			tick := time.NewTicker(100 * time.Millisecond)
			defer tick.Stop()
			for {
				f.mu.Lock()
				nodes := f.sorted(r)
				f.mu.Unlock()
				for _, n := range nodes {
					kind, object := formed(r, n)
					_, _ = w.Write(frame(f.t, "MODIFIED", kind, object))
				}
				_ = out.Flush()
				select {
				case <-tick.C:
				case <-r.Context().Done():
					return
				}
			}
		}, streamSilence + atOnce},
	}
	for _, code := range []int32{400, 403, 404, 405, 422, 500, 501, 503} {
		ways[fmt.Sprint(code)] = way{func(w http.ResponseWriter, r *http.Request) { f.fail(w, r, refusalOf(code, "said by a test")) }, atOnce}
		ways[fmt.Sprint(code, ", by a proxy")] = way{func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "<html>no</html>", int(code))
		}, atOnce}
	}
	return ways
}

// TestFallsBackToPages: a store that cannot have its lists streamed has them in pages
// within a bound, of its own Node and of the others' metadata, and asks for no stream
// again.
func TestFallsBackToPages(t *testing.T) {
	for name := range unstreamable(&fake{t: t}) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, f := newFakeLab(t)
			l.SetConfig(network)
			l.create("node-1")
			l.create("node-2", "10.5.9.0/28")
			l.joins("node-2", "10.5.9.0/28")
			way := unstreamable(f)[name]
			f.do(func() {
				f.answer = func(w http.ResponseWriter, r *http.Request) bool {
					if asksToStream(r) {
						way.answer(w, r)
					}
					return asksToStream(r)
				}
			})
			began := time.Now()
			s := l.watch("node-1")
			s.await(t, "complete", func() bool { return len(s.leases) == 1 })
			if took := time.Since(began); took > way.bound {
				t.Errorf("the list was complete after %v, not within %v", took, way.bound)
			}
			l.failing("node-1", "Watching this Node")
			l.failing("node-1", "Watching the Nodes")
			own, _ := l.leased(1)
			s.await(t, "following", func() bool { return s.leases[own.Key()].Attrs == own.Attrs })
			kerneltest.Eventually(t, soon, func() error { // the watch begins after the list
				if !f.leanNow() {
					return errors.New("whole Nodes are watched")
				}
				return nil
			})
			// The server forgets its history: all is listed again.
			f.compact()
			f.cut()
			l.set("node-2", "public-ip", "192.0.2.97")
			s.await(t, "listed again", func() bool {
				return s.lists == 2 && s.leases["10.5.9.0-28"].PublicIP[subnet.IPv4] == ip("192.0.2.97")
			})
			if n := f.streamedLists(); n != 1 || s.least != 1 {
				t.Errorf("%d streamed lists were asked for, %d leases at the least", n, s.least)
			}
		})
	}
}

// TestStreamsAgain: a server that is upgraded streams again once the failure is old,
// and another server is asked at once.
func TestStreamsAgain(t *testing.T) {
	l, f := newFakeLab(t)
	f.noWatchList = true
	l.SetConfig(network)
	l.create("node-1")
	own, _ := l.leased(1)
	s := l.watch("node-1")
	s.await(t, "complete", func() bool { return s.leases[own.Key()].Attrs == own.Attrs })
	f.do(func() { f.noWatchList = false })
	relist := func(lists, streamed int) {
		t.Helper()
		f.compact()
		f.cut()
		s.await(t, "listed again", func() bool { return s.lists == lists && f.streamedLists() == streamed })
	}
	relist(2, 1)
	streams := &l.store("node-1").client.streaming
	streams.mu.Lock()
	streams.failed = time.Now().Add(-streamRetry - time.Second)
	streams.mu.Unlock()
	relist(3, 3) // of the own Node, and of the others
	streams.fellBack(errors.New("refused"))
	relist(4, 3)
	streams.forget()
	relist(5, 5)
}

// TestNoPagesInPlaceOfStream: what a server answers to every request is no reason to
// ask it for pages.
func TestNoPagesInPlaceOfStream(t *testing.T) {
	for _, code := range []int32{http.StatusUnauthorized, http.StatusTooManyRequests} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			l, f := newFakeLab(t)
			f.refuse = func(*http.Request) *metav1.Status { return refusalOf(code, "to all") }
			s := l.watch("node-1")
			l.failing("node-1", "Watching this Node", fmt.Sprint(code))
			f.do(func() { f.refuse = nil })
			s.await(t, "complete", func() bool { return s.lists == 1 })
			if n := f.asked(pagesOfOwn); n != 0 {
				t.Errorf("%d lists in pages", n)
			}
		})
	}
}

// pagesOfOwn begins a request for the node's own Node in pages.
const pagesOfOwn = "GET /api/v1/nodes?fieldSelector=metadata.name%3Dnode-1&limit="

// noWay is a transport that reaches no server, and notes what it was asked for.
type noWay struct{ asked chan string }

func (n noWay) RoundTrip(r *http.Request) (*http.Response, error) {
	select {
	case n.asked <- r.Method + " " + r.URL.RequestURI():
	case <-r.Context().Done():
	}
	return nil, errors.New("no route to host")
}

// TestNoPagesUnreached: a server that cannot be reached has refused nothing.
func TestNoPagesUnreached(t *testing.T) {
	l, _ := newFakeLab(t)
	way := noWay{make(chan string)}
	l.store("node-1").client.line.http.Transport = way
	l.watch("node-1")
	for range 3 {
		if asked := receive(t, way.asked); strings.HasPrefix(asked, pagesOfOwn) || !strings.Contains(asked, "sendInitialEvents=true") {
			t.Errorf("asked for %s", asked)
		}
	}
	l.failing("node-1", "Watching this Node", "there is no way to the API server")
}

// TestListForbidden: a server that allows neither a stream nor pages is named as what
// forbids them, and streams as soon as it allows both.
func TestListForbidden(t *testing.T) {
	l, f := newFakeLab(t)
	allowed, streaming := false, false
	f.refuse = func(r *http.Request) *metav1.Status {
		f.mu.Lock()
		defer f.mu.Unlock()
		if streaming = streaming || allowed && asksToStream(r); streaming {
			return nil
		}
		return refusalOf(http.StatusForbidden, "nodes is forbidden")
	}
	s := l.watch("node-1")
	l.failing("node-1", "Watching this Node", "does not allow it", "get, list and watch nodes")
	if n := f.asked(pagesOfOwn); n == 0 {
		t.Error("no pages were asked for")
	}
	f.do(func() { allowed = true })
	s.await(t, "complete", func() bool { return s.lists == 1 })
	l.failing("node-1", "Watching this Node")
	if !l.store("node-1").client.streaming.usable() {
		t.Error("pages failed as well, and count as evidence against streams")
	}
}
