package kube

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/kube/apitest"
	"github.com/tulle-net/tulle/pkg/test/bubbletest"
)

// TestWatchFollows: a watch reports all objects and then each change, in every
// format, with streamed lists and without.
func TestWatchFollows(t *testing.T) {
	for _, streams := range []bool{true, false} {
		t.Run(fmt.Sprintf("whole, streaming %t", streams), func(t *testing.T) { follows(t, streams, WholeNode, noteOf) })
		t.Run(fmt.Sprintf("metadata-only, streaming %t", streams), func(t *testing.T) { follows(t, streams, NodeMetadata, noteOf) })
		t.Run(fmt.Sprintf("JSON, streaming %t", streams), func(t *testing.T) { follows(t, streams, JSON[custom]("Node"), customNote) })
	}
}

func follows[T any](t *testing.T, streams bool, format Format[T], read func(*T) (name, note string)) {
	f := apitest.New(t)
	f.NoWatchList = !streams
	put(f, "a", "1")
	put(f, "b", "1")
	s, w := watching(t, newClient(t, Options{Server: f.URL}), format, read)
	is := func(want map[string]string) {
		t.Helper()
		s.await(t, fmt.Sprint(want), func() bool { return maps.Equal(s.objects, want) })
	}
	is(map[string]string{"a": "1", "b": "1"})
	put(f, "c", "1")
	put(f, "a", "2")
	is(map[string]string{"a": "2", "b": "1", "c": "1"})
	remove(f, "b")
	is(map[string]string{"a": "2", "c": "1"})
	// The watch resumes.
	f.Cut()
	remove(f, "c")
	put(f, "d", "1")
	is(map[string]string{"a": "2", "d": "1"})
	s.await(t, "at 107", func() bool {
		since, revision := w.Progress()
		return !since.IsZero() && revision == 107 && s.lists == 1
	})
	// The history is dropped: all is listed again.
	f.Do(func() { f.End(); f.Forget() })
	put(f, "e", "1")
	is(map[string]string{"a": "2", "d": "1", "e": "1"})
	// The same on request.
	s.works(t)
	w.Relist()
	s.await(t, "listed again", func() bool { return s.lists == 3 })
}

// TestWatchOfOne: a watch of one object reports no other.
func TestWatchOfOne(t *testing.T) {
	f := apitest.New(t)
	put(f, "a", "1")
	put(f, "b", "1")
	s := &seen[Node]{read: noteOf}
	run(t, &Watch[Node]{Client: newClient(t, Options{Server: f.URL}), Path: Nodes, Name: "a", Format: WholeNode, Sink: s, Report: s.report})
	s.works(t)
	put(f, "b", "2")
	put(f, "a", "2")
	s.await(t, "changed", func() bool { return maps.Equal(s.objects, map[string]string{"a": "2"}) })
}

// TestWatchUnderFaults: under any fault of the server no object disappears, and later
// changes are seen.
func TestWatchUnderFaults(t *testing.T) {
	for name, test := range map[string]func(t *testing.T, fault func(*seen[Node], *apitest.Server), lists int){
		"whole": func(t *testing.T, fault func(*seen[Node], *apitest.Server), lists int) {
			underFault(t, WholeNode, fault, lists)
		},
		"metadata-only": func(t *testing.T, fault func(*seen[Node], *apitest.Server), lists int) {
			underFault(t, NodeMetadata, fault, lists)
		},
	} {
		refuse := func(s *metav1.Status) func(*seen[Node], *apitest.Server) {
			return func(seen *seen[Node], f *apitest.Server) {
				f.Do(func() { f.Refuse = func(*http.Request) *metav1.Status { return s } })
				f.Cut()
				seen.fails(t, fmt.Sprint(s.Code))
				f.Do(func() { f.Refuse = nil })
			}
		}
		garble := func(change func(text []byte) []byte) func(*seen[Node], *apitest.Server) {
			return func(seen *seen[Node], f *apitest.Server) {
				f.Do(func() { f.Garble = change })
				put(f, "b", "x")
				seen.fails(t, "")
				f.Do(func() { f.Garble = nil })
			}
		}
		for fault, c := range map[string]struct {
			happens func(*seen[Node], *apitest.Server)
			lists   int
		}{
			"cut":          {func(_ *seen[Node], f *apitest.Server) { f.Cut() }, 1},
			"disconnected": {func(_ *seen[Node], f *apitest.Server) { f.Disconnect() }, 1},
			"401":          {refuse(apitest.Refusal(http.StatusUnauthorized, "Unauthorized")), 1},
			"403":          {refuse(apitest.Refusal(http.StatusForbidden, "nodes is forbidden")), 1},
			"429":          {refuse(apitest.Refusal(http.StatusTooManyRequests, "too many")), 1},
			"500":          {refuse(apitest.Refusal(http.StatusInternalServerError, "no")), 1},
			"too new": {func(_ *seen[Node], f *apitest.Server) {
				s := apitest.Refusal(http.StatusGatewayTimeout, "Timeout: Too large resource version")
				s.Details = &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: tooNewCause}}}
				f.Do(func() {
					f.Refuse = func(r *http.Request) *metav1.Status {
						if r.URL.Query().Get("resourceVersion") != "" {
							return s
						}
						return nil
					}
					f.End()
				})
			}, 2},
			"garbled":         {garble(func(text []byte) []byte { return append(text[:4], bytes.Repeat([]byte{0xff}, len(text)-4)...) }), 1},
			"longer than any": {garble(func([]byte) []byte { return []byte{0xff, 0xff, 0xff, 0xff} }), 1},
			"a Pod among them": {garble(func([]byte) []byte {
				return apitest.Frame(t, "ADDED", "Pod", &corev1.Pod{})
			}), 1},
		} {
			t.Run(name+", "+fault, func(t *testing.T) { test(t, c.happens, c.lists) })
		}
	}
}

func underFault(t *testing.T, format Format[Node], fault func(*seen[Node], *apitest.Server), lists int) {
	f := apitest.New(t)
	put(f, "a", "1")
	put(f, "b", "1")
	s, _ := watching(t, newClient(t, Options{Server: f.URL}), format, noteOf)
	s.works(t)
	fault(s, f)
	s.await(t, "listed", func() bool { return s.lists >= lists })
	f.Do(func() { f.Refuse = nil })
	put(f, "c", "1")
	s.await(t, "following", func() bool { return s.objects["c"] == "1" && len(s.objects) == 3 })
	s.works(t)
	if s.least != 2 || s.lists != lists {
		t.Errorf("%d objects at the least, %d lists, want 2 and %d", s.least, s.lists, lists)
	}
}

// TestPauseGetsTheFailure: Pause is called between two sessions, with the error that
// says how long the server asks to wait, and a count that grows.
func TestPauseGetsTheFailure(t *testing.T) {
	f := apitest.New(t)
	busy := apitest.Refusal(http.StatusTooManyRequests, "busy")
	busy.Details = &metav1.StatusDetails{RetryAfterSeconds: 100}
	f.Refuse = func(*http.Request) *metav1.Status { return busy }
	s := &seen[Node]{read: noteOf}
	paused := make(chan error)
	run(t, &Watch[Node]{
		Client: newClient(t, Options{Server: f.URL}), Path: Nodes, Format: WholeNode, Sink: s, Report: s.report,
		Pause: func(ctx context.Context, failures int, err error) error {
			if refused, ok := errors.AsType[*Error](err); !ok || refused.After != 100*time.Second {
				err = fmt.Errorf("paused because of %w", err)
			} else if want := f.Asked("GET"); failures != want {
				err = fmt.Errorf("paused after %d failures, want %d", failures, want)
			} else {
				err = nil
			}
			select {
			case paused <- err:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		},
	})
	for range 3 {
		if err := <-paused; err != nil {
			t.Error(err)
		}
	}
}

// TestSessionsThatBringEventsAreNoFailures: a server that cannot serve a reader fast
// enough ends its watch, again and again. The next session lists nothing. A session that brings nothing is a failure, the first one after many.
func TestSessionsThatBringEventsAreNoFailures(t *testing.T) {
	f := apitest.New(t)
	s := &seen[Node]{read: noteOf}
	paused := make(chan int, 1)
	run(t, &Watch[Node]{
		Client: newClient(t, Options{Server: f.URL}), Path: Nodes, Format: WholeNode, Sink: s, Report: s.report,
		Pause: func(ctx context.Context, failures int, _ error) error {
			select {
			case paused <- failures:
			case <-ctx.Done():
			}
			return ctx.Err()
		},
	})
	for i := range 10 {
		note := fmt.Sprint(i)
		put(f, "a", note)
		s.await(t, note, func() bool { return s.objects["a"] == note })
		if i > 0 { // the first one may come with the list
			f.Cut()
		}
	}
	select {
	case failures := <-paused:
		t.Fatalf("paused after %d failures", failures)
	default:
	}
	s.await(t, "one list", func() bool { return s.lists == 1 })
	f.Do(func() {
		f.Refuse = func(*http.Request) *metav1.Status { return apitest.Refusal(http.StatusInternalServerError, "no") }
	})
	f.Cut()
	if failures := <-paused; failures != 1 {
		t.Errorf("paused after %d failures, want 1", failures)
	}
}

// A server or proxy that ends every watch after an event gets no hot loop. A watch that
// was short once, or that lasted, resumes at once.
func TestShortSessionsHaveAFloor(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		f := apitest.InProcess(t)
		put(f, "a", "0")
		c := newClient(t, Options{Server: "http://apiserver"})
		c.Wrap(func(http.RoundTripper) http.RoundTripper { return f.Transport() })
		s, _ := watching(t, c, WholeNode, noteOf)
		synctest.Wait()
		cut := func() {
			put(f, "a", fmt.Sprint(f.Asked("GET ")))
			synctest.Wait()
			f.Cut()
			synctest.Wait()
		}
		watches := func() (n int) {
			for _, r := range f.Requests() {
				if strings.Contains(r, "watch=1") {
					n++
				}
			}
			return n
		}
		before := watches()
		for range 5 {
			<-time.After(2 * sessionFloor)
			synctest.Wait()
			cut()
		}
		if n := watches() - before; n != 5 {
			t.Errorf("%d watches began at once after one that lasted", n)
		}
		began := time.Now()
		before = watches()
		for time.Since(began) < time.Minute {
			cut()
			<-time.After(100 * time.Millisecond)
			synctest.Wait()
		}
		if n, most := watches()-before, int(2*time.Since(began)/sessionFloor)+2; n > most || n < most/4 {
			t.Errorf("%d watches in %s, want %d to %d", n, time.Since(began), most/4, most)
		}
		put(f, "a", "last")
		<-time.After(sessionFloor)
		synctest.Wait()
		if s.objects["a"] != "last" || s.lists != 1 || s.failed > 0 {
			t.Errorf("%+v", s)
		}
	})
}

// TestListInPages lists more objects than a page has, from a server that does not
// stream.
func TestListInPages(t *testing.T) {
	for _, cut := range []bool{false, true} {
		t.Run(fmt.Sprintf("expired %t", cut), func(t *testing.T) {
			f := apitest.New(t)
			f.NoWatchList, f.CutPages = true, cut
			f.Do(func() {
				for i := range 2*pageSize + 10 {
					f.Change("ADDED", apitest.SmallNode(i))
				}
			})
			s, _ := watchingWhole(t, f)
			s.await(t, "complete", func() bool { return len(s.objects) == 2*pageSize+10 })
			// One stream; three pages, or one page, an expired one and a list without
			// pages.
			var asked []string
			for _, r := range f.Requests() {
				if !strings.Contains(r, "resourceVersion=1") {
					asked = append(asked, r)
				}
			}
			if len(asked) != 4 {
				t.Errorf("%d requests, want 4: %v", len(asked), asked)
			}
		})
	}
}

// picky is a Sink that wants metadata alone, until it has seen too many objects.
type picky struct {
	seen[Node]
	most int

	mu      sync.Mutex
	whole   bool
	refused int
}

func (p *picky) Choose(bool) (Format[Node], bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.whole {
		return WholeNode, false
	}
	return NodeMetadata, false
}

func (p *picky) Refused() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refused++
	p.whole = true
}

func (p *picky) Unfit() bool {
	p.seen.mu.Lock()
	many := len(p.objects) > p.most
	p.seen.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	unfit := many && !p.whole
	p.whole = p.whole || many
	return unfit
}

// TestChooserChangesFormat: a Sink changes the format between two sessions, and
// nothing is listed again for that. A server that does not know metadata alone sends
// whole objects.
func TestChooserChangesFormat(t *testing.T) {
	asksWhole := func(f *apitest.Server) {
		t.Helper()
		kerneltest.Eventually(t, soon, func() error {
			all := f.Requests()
			if last := all[len(all)-1]; !strings.HasPrefix(last, "GET") || !strings.Contains(last, "watch=1") {
				return errors.New(last)
			}
			return nil
		})
	}
	for _, streams := range []bool{true, false} {
		t.Run(fmt.Sprintf("changes its mind, streaming %t", streams), func(t *testing.T) {
			f := apitest.New(t)
			f.NoWatchList = !streams
			put(f, "a", "1")
			p := &picky{seen: seen[Node]{read: noteOf}, most: 1}
			run(t, &Watch[Node]{Client: newClient(t, Options{Server: f.URL}), Path: Nodes, Sink: p, Report: p.report})
			p.works(t)
			put(f, "b", "1")
			asksWhole(f)
			put(f, "b", "2")
			p.await(t, "following", func() bool { return p.objects["b"] == "2" })
			if p.lists != 1 || p.refused != 0 || p.failed != 0 {
				t.Errorf("%d lists, %d refusals, %d failures", p.lists, p.refused, p.failed)
			}
		})
		for name, noMetadata := range map[string]func(f *apitest.Server) func(w http.ResponseWriter, r *http.Request) bool{
			"not acceptable": func(f *apitest.Server) func(w http.ResponseWriter, r *http.Request) bool {
				return func(w http.ResponseWriter, r *http.Request) bool {
					f.Fail(w, r, apitest.Refusal(http.StatusNotAcceptable, "only the following media types are accepted"))
					return true
				}
			},
			"gives whole objects": func(*apitest.Server) func(w http.ResponseWriter, r *http.Request) bool {
				return func(_ http.ResponseWriter, r *http.Request) bool {
					r.Header.Set("Accept", protobufType)
					return false
				}
			},
		} {
			t.Run(fmt.Sprintf("%s, streaming %t", name, streams), func(t *testing.T) {
				f := apitest.New(t)
				f.NoWatchList, f.NoMetadata = !streams, noMetadata(f)
				put(f, "a", "1")
				p := &picky{seen: seen[Node]{read: noteOf}, most: 10}
				run(t, &Watch[Node]{Client: newClient(t, Options{Server: f.URL}), Path: Nodes, Sink: p, Report: p.report})
				p.works(t)
				asksWhole(f)
				if p.refused != 1 || p.lists != 1 || p.failed != 0 {
					t.Errorf("%d refusals, %d lists, %d failures", p.refused, p.lists, p.failed)
				}
			})
		}
	}
}

// TestHeartbeatIsFree: an event allocates nothing.
func TestHeartbeatIsFree(t *testing.T) {
	for name, format := range map[string]Format[Node]{"whole": WholeNode, "metadata-only": NodeMetadata} {
		n := apitest.LargeNode(1)
		text := apitest.Encoded(t, n)
		if format.optional {
			text = apitest.Encoded(t, &metav1.PartialObjectMetadata{ObjectMeta: n.ObjectMeta})
		}
		var to Node
		allocated := testing.AllocsPerRun(100, func() {
			if err := format.decode(text, &to); err != nil {
				t.Fatal(err)
			}
			if _, err := format.wire.revision(text); err != nil {
				t.Fatal(err)
			}
		})
		if allocated > 0 {
			t.Errorf("%s: %v allocations", name, allocated)
		}
	}
}

// BenchmarkEvent measures an event of a Node.
func BenchmarkEvent(b *testing.B) {
	text := apitest.Frame(b, "MODIFIED", "Node", apitest.LargeNode(1))
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	w := &Watch[Node]{Format: WholeNode}
	from := bytes.NewReader(nil)
	sent := stream{events: w.Format.wire.events(from)}
	var n Node
	for b.Loop() {
		from.Reset(text)
		_, message, err := w.next(sent, &n)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := w.Format.wire.revision(message); err != nil {
			b.Fatal(err)
		}
	}
}
