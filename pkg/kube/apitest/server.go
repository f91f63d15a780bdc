package apitest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Server is an API server of Nodes. Set its fields and change its history inside Do,
// or before the first request.
type Server struct {
	// URL is the server's URL.
	URL string
	// Nodes are all Nodes by name.
	Nodes map[string]*corev1.Node
	// Gives returns the podCIDRs for the i-th Node that is created without any.
	Gives func(i int) []string

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
	// Garble, if set, changes the events that a watch sends after its list.
	Garble func(event []byte) []byte
	// CutPages makes every page after the first one fail.
	CutPages bool

	t      testing.TB
	server *httptest.Server

	mu       sync.Mutex
	changed  chan struct{} // closed, and replaced, at every change
	log      []event
	revision int64
	oldest   int64 // the oldest revision that a watch may resume from
	epoch    int   // incremented to end all watches
	requests []string
	made     int
}

// event is a change of a Node.
type event struct {
	kind     string
	node     *corev1.Node
	revision int64
}

// New starts a server.
func New(t testing.TB) *Server {
	f := &Server{t: t, changed: make(chan struct{}), Nodes: make(map[string]*corev1.Node), revision: 100}
	f.Gives = func(i int) []string { return []string{fmt.Sprintf("10.5.0.%d/28", i*16%256)} }
	f.server = httptest.NewServer(f)
	f.URL = f.server.URL
	t.Cleanup(func() {
		f.Cut()
		f.server.CloseClientConnections()
		f.server.Close()
	})
	return f
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
	f.revision++
	n = n.DeepCopy()
	n.ResourceVersion = strconv.FormatInt(f.revision, 10)
	if kind == "DELETED" {
		delete(f.Nodes, n.Name)
	} else {
		f.Nodes[n.Name] = n
	}
	f.log = append(f.log, event{kind, n, f.revision})
}

// Requests returns all requests so far, each as method and URL. A request for
// metadata alone begins with "metadata-only ".
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

// ServeHTTP implements http.Handler.
func (f *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	metadataOnly := strings.Contains(r.Header.Get("Accept"), metadata)
	asked := r.Method + " " + r.URL.String()
	if metadataOnly {
		asked = "metadata-only " + asked
	}
	f.mu.Lock()
	f.requests = append(f.requests, asked)
	refuse, answer, noMetadata := f.Refuse, f.Answer, f.NoMetadata
	f.mu.Unlock()
	if answer != nil && answer(w, r) {
		return
	}
	if refuse != nil {
		if s := refuse(r); s != nil {
			f.Fail(w, r, s)
			return
		}
	}
	parts := strings.Split(strings.TrimPrefix(r.URL.Path, "/api/v1/"), "/")
	name := ""
	if len(parts) > 1 {
		name = parts[1]
	}
	switch {
	case parts[0] == "namespaces":
		fmt.Fprint(typed(w, asJSON), `{"kind":"Pod","spec":{"nodeName":"node-1"}}`)
	case r.Method == http.MethodPost:
		f.create(w, r)
	case r.Method == http.MethodPatch:
		f.patch(w, r, name)
	case r.Method == http.MethodDelete:
		f.remove(w, name)
	case noMetadata != nil && metadataOnly && noMetadata(w, r):
	case r.URL.Query().Get("watch") != "":
		f.watch(w, r)
	case name != "":
		f.get(w, r, name)
	default:
		f.list(w, r)
	}
}
