package apitest

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Server is an API server. Set its fields and change its history inside Do, or before
// the first request.
type Server struct {
	// URL is the server's URL.
	URL string
	// Nodes are all Nodes by name.
	Nodes map[string]*corev1.Node
	// Gives returns the podCIDRs for the i-th Node that is created without any. Without
	// it such a Node has none.
	Gives func(i int) []string
	// Serves are the resources that the server has, by their path in all namespaces, and
	// their kinds. New sets nodes, leases, events and servicecidrs.
	Serves map[string]string

	// NoWatchList makes the server refuse streamed lists, as without the feature.
	NoWatchList bool
	// Answer, if set, is called first for each request. It reports whether it
	// answered.
	Answer func(w http.ResponseWriter, r *http.Request) bool
	// NoMetadata, if set, is called for requests for metadata alone. It reports whether
	// it answered.
	NoMetadata func(w http.ResponseWriter, r *http.Request) bool
	// Refuse, if set, returns the refusal of a request, or nil.
	Refuse func(r *http.Request) *metav1.Status
	// Hold, if set, is called for each request. If it returns a channel, the server
	// serves the request when that is closed, even if the client is gone by then.
	Hold func(r *http.Request) <-chan struct{}
	// Lose, if set, reports whether the server cuts the connection in place of an
	// answer, after it has served the request.
	Lose func(r *http.Request) bool
	// Garble, if set, changes the events that a watch sends after its list.
	Garble func(event []byte) []byte
	// CutPages makes every page after the first one fail.
	CutPages bool

	t      testing.TB
	server *httptest.Server
	ended  chan struct{}

	mu       sync.Mutex
	objects  map[string]map[string]*unstructured.Unstructured // all but Nodes, by resource and key
	changed  chan struct{}                                    // closed, and replaced, at every change
	log      []event
	revision int64
	oldest   int64 // the oldest revision that a watch may resume from
	epoch    int   // incremented to end all watches
	watches  map[*watching]struct{}
	requests []string
	made     int // Nodes
}

// event is a change of an object.
type event struct {
	resource, kind string
	object         Object
	revision       int64
}

// New starts a server.
func New(t testing.TB) *Server {
	f := newServer(t)
	f.server = httptest.NewServer(f)
	f.URL = f.server.URL
	t.Cleanup(func() {
		f.stop()
		f.server.CloseClientConnections()
		f.server.Close()
	})
	return f
}

func newServer(t testing.TB) *Server {
	f := &Server{
		t: t, ended: make(chan struct{}), changed: make(chan struct{}), revision: 100,
		watches: make(map[*watching]struct{}), Nodes: make(map[string]*corev1.Node), objects: make(map[string]map[string]*unstructured.Unstructured),
		Serves: map[string]string{
			nodes: "Node", leases: "Lease", events: "Event", "apis/networking.k8s.io/v1/servicecidrs": "ServiceCIDR",
		},
	}
	f.Gives = func(i int) []string { return []string{fmt.Sprintf("10.5.0.%d/28", i*16%256)} }
	return f
}

// stop ends all watches, and all requests that the server holds.
func (f *Server) stop() {
	close(f.ended)
	f.Cut()
}

// Client returns an HTTP client of the server that keeps no connections.
func (f *Server) Client() *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
}

// Disconnect breaks all connections.
func (f *Server) Disconnect() { f.server.CloseClientConnections() }

// Do runs a change while no request is served, and wakes all watches.
func (f *Server) Do(what func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	what()
	close(f.changed)
	f.changed = make(chan struct{})
}

// Cut ends all watches.
func (f *Server) Cut() { f.Do(f.End) }

// watching is a watch that the server serves.
type watching struct {
	asked string // as in Requests
	over  bool
}

// CutSome ends the watches whose requests match, each once.
func (f *Server) CutSome(match func(asked string) bool) {
	f.Do(func() {
		for w := range f.watches {
			w.over = w.over || match(w.asked)
		}
	})
}

// Compact drops all history.
func (f *Server) Compact() { f.Do(f.Forget) }

// End ends all watches. Call it inside Do.
func (f *Server) End() { f.epoch++ }

// Forget drops all history. Call it inside Do.
func (f *Server) Forget() {
	f.oldest, f.log = f.revision+1, nil
	f.revision++
}

// Change writes a Node, with an event of that kind. Call it inside Do.
func (f *Server) Change(kind string, n *corev1.Node) {
	f.write(target{resource: nodes, name: n.Name}, kind, n)
}

// Requests returns all requests so far, each as method and URL. One that reads metadata
// alone begins with "metadata-only ".
func (f *Server) Requests() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.requests)
}

// Asked counts the requests that begin with a prefix.
func (f *Server) Asked(prefix string) (n int) {
	for _, r := range f.Requests() {
		if strings.HasPrefix(r, prefix) {
			n++
		}
	}
	return n
}

// StreamedLists counts the requests for a streamed list.
func (f *Server) StreamedLists() (n int) {
	for _, r := range f.Requests() {
		if strings.Contains(r, "sendInitialEvents=true") {
			n++
		}
	}
	return n
}

// AsksForStream reports whether a request asks for a streamed list.
func AsksForStream(r *http.Request) bool { return r.URL.Query().Get("sendInitialEvents") == "true" }

// Node returns a Node's present state, or nil.
func (f *Server) Node(name string) *corev1.Node {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.Nodes[name]
}

// asked returns what a request asks for, as in Requests.
func asked(r *http.Request) string {
	text := r.Method + " " + r.URL.String()
	if wantsMetadata(r) {
		return "metadata-only " + text
	}
	return text
}

// ServeHTTP implements http.Handler.
func (f *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	metadataOnly := wantsMetadata(r)
	t := targetOf(r)
	f.mu.Lock()
	f.requests = append(f.requests, asked(r))
	refuse, answer, noMetadata, hold, lose := f.Refuse, f.Answer, f.NoMetadata, f.Hold, f.Lose
	t.kind = f.Serves[t.resource]
	f.mu.Unlock()
	if hold != nil && !f.held(r, hold(r)) {
		return
	}
	if lose != nil && lose(r) {
		defer panic(http.ErrAbortHandler)
		w = httptest.NewRecorder()
	}
	if answer != nil && answer(w, r) {
		return
	}
	if refuse != nil {
		if s := refuse(r); s != nil {
			f.Fail(w, r, s)
			return
		}
	}
	if metadataOnly && noMetadata != nil && noMetadata(w, r) {
		return
	}
	f.serve(w, r, t)
}

// held waits until a request may be served, or returns false if the server ends first.
// The server has the body of a client that goes away.
func (f *Server) held(r *http.Request, until <-chan struct{}) bool {
	if until == nil {
		return true
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return false
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	select {
	case <-until:
		return true
	case <-f.ended:
		return false
	}
}

func (f *Server) serve(w http.ResponseWriter, r *http.Request, t target) {
	_, acceptable := formOf(r, t.resource)
	switch {
	case t.resource == "api/v1/pods":
		fmt.Fprint(typed(w, asJSON), `{"kind":"Pod","spec":{"nodeName":"node-1"}}`)
	case t.kind == "":
		f.Fail(w, r, Refusal(http.StatusNotFound, "the server could not find the requested resource"))
	case !acceptable:
		f.Fail(w, r, Refusal(http.StatusNotAcceptable, "only the following media types are accepted: application/json"))
	case r.Method == http.MethodPost:
		f.create(w, r, t)
	case r.Method == http.MethodPut:
		f.update(w, r, t)
	case r.Method == http.MethodPatch:
		f.patch(w, r, t)
	case r.Method == http.MethodDelete:
		f.remove(w, r, t)
	case r.URL.Query().Get("watch") != "":
		f.watch(w, r, t)
	case t.name != "":
		f.get(w, r, t)
	default:
		f.list(w, r, t)
	}
}
