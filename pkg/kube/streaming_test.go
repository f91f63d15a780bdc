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

	"github.com/tulle-net/tulle/pkg/kube/apitest"
)

// way is a way in which a server fails to stream a list, and how soon the client must
// notice.
type way struct {
	answer func(f *apitest.Server, w http.ResponseWriter, r *http.Request)
	bound  time.Duration
	slow   string // the only format to try a slow way in
}

// unstreamable returns all ways.
func unstreamable() map[string]way {
	const atOnce = 5 * time.Second
	immediate := func(answer func(f *apitest.Server, w http.ResponseWriter, r *http.Request)) way {
		return way{answer, atOnce, ""}
	}
	ways := map[string]way{
		"empty body": immediate(func(_ *apitest.Server, w http.ResponseWriter, r *http.Request) { apitest.Begin(w, r) }),
		"no answer":  immediate(func(*apitest.Server, http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }),
		"cut in the midst": immediate(func(f *apitest.Server, w http.ResponseWriter, r *http.Request) {
			apitest.Begin(w, r)
			_, _ = w.Write(f.Event(r, "ADDED", &corev1.Node{})[:10])
		}),
		"an error event": immediate(func(f *apitest.Server, w http.ResponseWriter, r *http.Request) {
			apitest.Begin(w, r)
			_, _ = w.Write(f.Failure(r, apitest.Refusal(http.StatusInternalServerError, "no progress notifications")))
		}),
		"gone": immediate(func(f *apitest.Server, w http.ResponseWriter, r *http.Request) {
			f.Fail(w, r, apitest.Refusal(http.StatusGone, "too old"))
		}),
		"too new": immediate(func(f *apitest.Server, w http.ResponseWriter, r *http.Request) {
			s := apitest.Refusal(http.StatusGatewayTimeout, "Timeout: Too large resource version")
			s.Details = &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: tooNewCause}}}
			f.Fail(w, r, s)
		}),
		"a page of a proxy": immediate(func(_ *apitest.Server, w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, "<html>sign in</html>")
		}),
		"garbage": immediate(func(_ *apitest.Server, w http.ResponseWriter, r *http.Request) {
			apitest.Begin(w, r)
			_, _ = w.Write(bytes.Repeat([]byte{0xff}, 100))
		}),
		"silence": {func(_ *apitest.Server, _ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, streamSilence + atOnce, "metadata-only"},
		"no bookmark, and heartbeats": {func(f *apitest.Server, w http.ResponseWriter, r *http.Request) {
			out := apitest.Begin(w, r)
			tick := time.NewTicker(100 * time.Millisecond)
			defer tick.Stop()
			for {
				var beats []byte
				f.Do(func() {
					for _, n := range f.Sorted(r) {
						beats = append(beats, f.Event(r, "MODIFIED", n)...)
					}
				})
				_, _ = w.Write(beats)
				_ = out.Flush()
				select {
				case <-tick.C:
				case <-r.Context().Done():
					return
				}
			}
		}, streamSilence + atOnce, "whole"},
	}
	for _, code := range []int32{400, 403, 404, 405, 422, 500, 501, 503} {
		ways[fmt.Sprint(code)] = immediate(func(f *apitest.Server, w http.ResponseWriter, r *http.Request) {
			f.Fail(w, r, apitest.Refusal(code, "said by a test"))
		})
		ways[fmt.Sprint(code, ", by a proxy")] = immediate(func(_ *apitest.Server, w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "<html>no</html>", int(code))
		})
	}
	return ways
}

// TestFallsBackToPages: in every format, a list that cannot be streamed comes in
// pages within a time limit. The client requests no further stream.
func TestFallsBackToPages(t *testing.T) {
	for name, way := range unstreamable() {
		for format, test := range map[string]func(t *testing.T){
			"whole":         func(t *testing.T) { fallsBack(t, way, WholeNode, noteOf) },
			"metadata-only": func(t *testing.T) { fallsBack(t, way, NodeMetadata, noteOf) },
			"JSON":          func(t *testing.T) { fallsBack(t, way, JSON[custom]("Node"), customNote) },
		} {
			if way.slow == "" || way.slow == format {
				t.Run(name+", "+format, func(t *testing.T) { t.Parallel(); test(t) })
			}
		}
	}
}

func fallsBack[T any](t *testing.T, way way, format Format[T], read func(*T) (name, note string)) {
	f := apitest.New(t)
	put(f, "a", "1")
	f.Answer = func(w http.ResponseWriter, r *http.Request) bool {
		if apitest.AsksForStream(r) {
			way.answer(f, w, r)
		}
		return apitest.AsksForStream(r)
	}
	began := time.Now()
	s, _ := watching(t, newClient(t, Options{Server: f.URL}), format, read)
	s.await(t, "complete", func() bool { return s.objects["a"] == "1" })
	if took := time.Since(began); took > way.bound {
		t.Errorf("the list was complete after %v, not within %v", took, way.bound)
	}
	s.works(t)
	if silent := way.slow != ""; (s.failed == 1) != silent || s.failed > 1 {
		t.Errorf("%d failures were reported", s.failed)
	}
	put(f, "a", "2")
	s.await(t, "following", func() bool { return s.objects["a"] == "2" })
	// The server drops its history: all is listed again.
	f.Do(func() { f.End(); f.Forget() })
	put(f, "a", "3")
	s.await(t, "listed again", func() bool { return s.lists == 2 && s.objects["a"] == "3" })
	if n := f.StreamedLists(); n != 1 || s.least != 1 {
		t.Errorf("%d streamed lists were asked for, %d objects at the least", n, s.least)
	}
}

// TestStreamsAgain: an upgraded server is asked for a stream once the failure is old,
// and another server at once. Other resources are not affected.
func TestStreamsAgain(t *testing.T) {
	f := apitest.New(t)
	f.NoWatchList = true
	put(f, "a", "1")
	s, w := watchingWhole(t, f)
	s.works(t)
	f.Do(func() { f.NoWatchList = false })
	lists := 1
	relist := func(streamed int) {
		t.Helper()
		w.Relist()
		lists++
		s.await(t, "listed again", func() bool { return s.lists == lists })
		s.works(t)
		if n := f.StreamedLists(); n != streamed {
			t.Errorf("%d streamed lists were asked for, want %d", n, streamed)
		}
	}
	relist(1)
	streams := &w.Client.streaming
	if !streams.usable("api/v1/services") {
		t.Error("no stream of anything else is asked for")
	}
	streams.mu.Lock()
	streams.failed[Nodes] = time.Now().Add(-streamRetry - time.Second)
	streams.mu.Unlock()
	relist(2)
	streams.fellBack(Nodes, errors.New("refused"))
	relist(2)
	streams.reset()
	relist(3)
}

// pages begins a request for a list in pages.
const pages = "GET /api/v1/nodes?limit="

// TestOverloadCausesNoFallback: an error that the server returns to every request is no
// reason to request pages.
func TestOverloadCausesNoFallback(t *testing.T) {
	for _, code := range []int32{http.StatusUnauthorized, http.StatusTooManyRequests} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			f := apitest.New(t)
			f.Refuse = func(*http.Request) *metav1.Status { return apitest.Refusal(code, "to all") }
			s, _ := watchingWhole(t, f)
			s.fails(t, fmt.Sprint(code))
			f.Do(func() { f.Refuse = nil })
			s.works(t)
			if n := f.Asked(pages); n != 0 {
				t.Errorf("%d lists in pages", n)
			}
		})
	}
}

// noWay is a transport that reaches no server, and records the requests.
type noWay struct{ asked chan string }

func (n noWay) RoundTrip(r *http.Request) (*http.Response, error) {
	select {
	case n.asked <- r.Method + " " + r.URL.RequestURI():
	case <-r.Context().Done():
	}
	return nil, errors.New("no route to host")
}

// TestUnreachableServerCausesNoFallback: an unreachable server has refused nothing.
func TestUnreachableServerCausesNoFallback(t *testing.T) {
	way := noWay{make(chan string)}
	c := newClient(t, Options{Server: "http://127.0.0.1:1"})
	c.Wrap(func(http.RoundTripper) http.RoundTripper { return way })
	s, _ := watching(t, c, WholeNode, noteOf)
	for range 3 {
		select {
		case asked := <-way.asked:
			if !strings.Contains(asked, "sendInitialEvents=true") {
				t.Errorf("asked for %s", asked)
			}
		case <-time.After(soon):
			t.Fatal("nothing is asked for")
		}
	}
	s.fails(t, "no route to host")
}

// TestForbiddenListStreamsOnceAllowed: a server that allows neither a stream nor
// pages is asked for a stream as soon as it allows both.
func TestForbiddenListStreamsOnceAllowed(t *testing.T) {
	f := apitest.New(t)
	allowed, streaming := false, false
	f.Refuse = func(r *http.Request) (s *metav1.Status) {
		f.Do(func() {
			if streaming = streaming || allowed && apitest.AsksForStream(r); !streaming {
				s = apitest.Refusal(http.StatusForbidden, "nodes is forbidden")
			}
		})
		return s
	}
	s, w := watchingWhole(t, f)
	s.fails(t, "403")
	if f.Asked(pages) == 0 {
		t.Error("no pages were asked for")
	}
	f.Do(func() { allowed = true })
	s.works(t)
	if !w.Client.streaming.usable(Nodes) {
		t.Error("pages failed as well, and count as evidence against streams")
	}
}
