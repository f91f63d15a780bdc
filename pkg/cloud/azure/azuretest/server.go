// Package azuretest is a subscription of Azure in the test's process: a server on loopback
// that speaks for Azure Resource Manager, and gives tokens like the identity endpoint of a
// host. The real SDK is its client. It imports no SDK, and shares no code with a client.
package azuretest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// The names of the subscription.
const (
	Subscription = "0b1f6471-1bf0-4dda-aec3-cb9272f09590"
	Group        = "Nodes"
	Location     = "westeurope"
	Table        = "nodes-rt"
	token        = "a-token-of-the-test"
)

// Object is a JSON object.
type Object = map[string]any

// Call is a request that the server has seen.
type Call struct {
	Method, Path, Query, Match string
	Status                     int
}

// Fault is an answer in place of the right one.
type Fault struct {
	// Method and Part select requests: the method, or any, and a part of the path in small
	// letters.
	Method, Part string
	// Times is how often it is answered so; 0 is always.
	Times int
	// Status and Code are the answer. Without a status the request is carried out.
	Status int
	Code   string
	// After is the header Retry-After, in seconds.
	After string
	// Body is the answer in place of an error of Azure.
	Body string
	// Header are further headers.
	Header map[string]string
	// Cut ends the connection in the middle of the right answer.
	Cut bool
	// Late lets the operation that begins fail in the end.
	Late bool
	// Hold, if set, is waited for first.
	Hold <-chan struct{}
}

// Server is a subscription.
type Server struct {
	URL string

	t          testing.TB
	mu         sync.Mutex
	resources  map[string]Object // by their paths in small letters
	operations map[string]*operation
	calls      []Call
	faults     []*Fault
	etag       int
	next       int
	// Page is how many items a page has; 0 is all. Steps is how often an operation is
	// polled before its end. Most is how many routes the table may have. Set them inside Do.
	Page, Steps, Most int
}

// operation is a write that goes on after its answer.
type operation struct {
	left   int
	path   string
	failed string // the code of the failure
}

// New starts a server with an empty route table. It ends with the test.
func New(t testing.TB) *Server {
	t.Helper()
	s := &Server{t: t, resources: make(map[string]Object), operations: make(map[string]*operation), Steps: 1, Most: 400}
	web := httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(web.Close)
	s.URL = web.URL
	s.Do(func() {
		s.put(s.tablePath(), Object{"name": Table, "location": Location, "tags": Object{"owner": "network"}, "properties": Object{"disableBgpRoutePropagation": true, "routes": []any{}, "aNewProperty": "kept"}})
	})
	return s
}

// Do calls f while the server answers nothing.
func (s *Server) Do(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// Setenv makes the server the identity endpoint of this process.
func (s *Server) Setenv(t *testing.T) {
	t.Helper()
	t.Setenv("IDENTITY_ENDPOINT", s.URL+"/msi/token")
	t.Setenv("IDENTITY_HEADER", "header")
}

// Config writes a cloud config for the server, with further settings as JSON members, and
// returns its path.
func (s *Server) Config(more ...string) string {
	s.t.Helper()
	text := fmt.Sprintf(`{"cloud":"AzurePublicCloud","subscriptionId":%q,"resourceGroup":%q,"location":%q,"routeTableName":%q,"resourceManagerEndpoint":%q,"useManagedIdentityExtension":true%s}`,
		Subscription, Group, Location, Table, s.URL, strings.Join(append([]string{""}, more...), ","))
	path := filepath.Join(s.t.TempDir(), "azure.json")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return path
}

// Inject adds a fault, and returns what ends it.
func (s *Server) Inject(f Fault) func() {
	s.Do(func() { s.faults = append(s.faults, &f) })
	return func() {
		s.Do(func() {
			for i, other := range s.faults {
				if other == &f {
					s.faults = append(s.faults[:i:i], s.faults[i+1:]...)
					return
				}
			}
		})
	}
}

// Calls returns the requests with a method, or any, and a part of the path.
func (s *Server) Calls(method, part string) (all []Call) {
	s.Do(func() {
		for _, c := range s.calls {
			if (method == "" || method == c.Method) && strings.Contains(strings.ToLower(c.Path), strings.ToLower(part)) {
				all = append(all, c)
			}
		}
	})
	return all
}

// serve answers a request.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/msi/token" {
		fmt.Fprintf(w, `{"access_token":%q,"expires_on":"%d","resource":"https://management.azure.com/","token_type":"Bearer"}`, token, time.Now().Add(time.Hour).Unix())
		return
	}
	var body Object
	if r.Method == http.MethodPut {
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			writeError(w, http.StatusBadRequest, "InvalidRequestContent", err.Error())
			return
		}
	}
	s.mu.Lock()
	f := s.fault(r)
	s.mu.Unlock()
	if f != nil && f.Hold != nil {
		<-f.Hold
	}
	answer := httptest.NewRecorder()
	s.mu.Lock()
	s.answer(answer, r, body, f)
	s.calls = append(s.calls, Call{r.Method, r.URL.Path, r.URL.RawQuery, r.Header.Get("If-Match"), answer.Code})
	s.mu.Unlock()
	for k, all := range answer.Header() {
		w.Header()[k] = all
	}
	if f != nil {
		for k, v := range f.Header {
			w.Header().Set(k, v)
		}
		if f.Cut {
			w.Header().Set("Content-Length", fmt.Sprint(answer.Body.Len()))
			w.WriteHeader(answer.Code)
			_, _ = w.Write(answer.Body.Bytes()[:answer.Body.Len()/2])
			panic(http.ErrAbortHandler)
		}
	}
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes())
}

// fault returns the fault of a request, or nil.
func (s *Server) fault(r *http.Request) *Fault {
	for i, f := range s.faults {
		if f.Method != "" && f.Method != r.Method || !strings.Contains(strings.ToLower(r.URL.Path), strings.ToLower(f.Part)) {
			continue
		}
		if f.Times == 1 {
			s.faults = append(s.faults[:i:i], s.faults[i+1:]...)
		} else if f.Times > 1 {
			f.Times--
		}
		return f
	}
	return nil
}

// answer carries a request out.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, body Object, f *Fault) {
	switch {
	case r.Header.Get("Authorization") != "Bearer "+token:
		writeError(w, http.StatusUnauthorized, "InvalidAuthenticationToken", "The access token is invalid.")
	case f != nil && f.Status != 0:
		if f.After != "" {
			w.Header().Set("Retry-After", f.After)
		}
		if f.Body != "" {
			w.WriteHeader(f.Status)
			fmt.Fprint(w, f.Body)
			return
		}
		writeError(w, f.Status, f.Code, "A fault of the test.")
	case r.URL.Query().Get("api-version") == "":
		writeError(w, http.StatusBadRequest, "MissingApiVersionParameter", "The api-version query parameter (?api-version=) is required for all requests.")
	case strings.HasPrefix(r.URL.Path, "/operations/"):
		s.operation(w, r.URL.Path)
	case r.Method == http.MethodPut:
		s.write(w, r, body, f != nil && f.Late)
	case r.Method == http.MethodGet:
		s.read(w, r)
	default:
		writeError(w, http.StatusMethodNotAllowed, "MethodNotAllowed", r.Method)
	}
}

func writeError(w http.ResponseWriter, status int, code, text string) {
	writeJSON(w, status, Object{"error": Object{"code": code, "message": text}})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}
