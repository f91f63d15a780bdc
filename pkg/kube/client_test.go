package kube

import (
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/kube/apitest"
	"github.com/tulle-net/tulle/pkg/test/certtest"
)

// serveTLS serves f over TLS too, and returns that server.
func serveTLS(t *testing.T, f *apitest.Server, config *tls.Config, http2 bool) *httptest.Server {
	secure := httptest.NewUnstartedServer(f)
	secure.TLS, secure.EnableHTTP2 = config, http2
	secure.StartTLS()
	t.Cleanup(func() {
		f.Cut()
		secure.CloseClientConnections()
		secure.Close()
	})
	return secure
}

// replace replaces a file as a kubelet does: it is never half written.
func replace(t *testing.T, path, text string) {
	t.Helper()
	if err := errors.Join(os.WriteFile(path+".new", []byte(text), 0o600), os.Rename(path+".new", path)); err != nil {
		t.Fatal(err)
	}
}

// TestRotatedTokenIsUsedAtOnce: when its token is rejected, a client sends the file's
// present token, and not the old one for another minute.
func TestRotatedTokenIsUsedAtOnce(t *testing.T) {
	f := apitest.New(t)
	var valid atomic.Value
	valid.Store("first")
	f.Refuse = func(r *http.Request) *metav1.Status {
		if r.Header.Get("Authorization") != "Bearer "+valid.Load().(string) {
			return apitest.Refusal(http.StatusUnauthorized, "invalid token")
		}
		return nil
	}
	secure := serveTLS(t, f, nil, false) // a client sends no token without TLS
	dir := t.TempDir()
	token, ca, kubeconfig := filepath.Join(dir, "token"), filepath.Join(dir, "ca.pem"), filepath.Join(dir, "kubeconfig")
	replace(t, token, "first")
	replace(t, ca, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw})))
	replace(t, kubeconfig, fmt.Sprintf(`{"clusters":[{"name":"c","cluster":{"server":%q,"certificate-authority":%q}}],"users":[{"name":"u","user":{"tokenFile":%q}}],
		"contexts":[{"name":"x","context":{"cluster":"c","user":"u"}}],"current-context":"x"}`, secure.URL, ca, token))
	s, _ := watching(t, newClient(t, Options{Kubeconfig: kubeconfig}), WholeNode, noteOf)
	s.works(t)
	valid.Store("second")
	f.Cut()
	s.fails(t, "401")
	replace(t, token, "second")
	s.works(t)
}

// TestChangedAuthoritiesAreTrusted: a client trusts a new authority's server as soon as the file
// of authorities has that authority.
func TestChangedAuthoritiesAreTrusted(t *testing.T) {
	f := apitest.New(t)
	var shown atomic.Pointer[tls.Certificate]
	// sign gives the server a certificate of a new authority, and returns that
	// authority's file.
	sign := func() string {
		t.Helper()
		files := certtest.NewFiles(t)
		certtest.New(t).Write(files, netip.MustParseAddr("127.0.0.1"), time.Hour)
		pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
		if err != nil {
			t.Fatal(err)
		}
		shown.Store(&pair)
		return files.CA
	}
	ca := sign()
	secure := serveTLS(t, f, &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return &tls.Config{Certificates: []tls.Certificate{*shown.Load()}}, nil
	}}, false)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	replace(t, kubeconfig, fmt.Sprintf(`{"clusters":[{"name":"c","cluster":{"server":%q,"certificate-authority":%q}}],
		"contexts":[{"name":"x","context":{"cluster":"c"}}],"current-context":"x"}`, secure.URL, ca))
	s, _ := watching(t, newClient(t, Options{Kubeconfig: kubeconfig}), WholeNode, noteOf)
	s.works(t)
	next := sign()
	secure.CloseClientConnections()
	s.fails(t, "unknown authority")
	replace(t, ca, "rubbish")
	s.fails(t, "unknown authority")
	text, err := os.ReadFile(next)
	if err != nil {
		t.Fatal(err)
	}
	replace(t, ca, string(text))
	s.works(t)
}

// TestOwnWatchesShareNoConnection: with HTTP/2, all requests share a connection, watches
// too unless they have their own.
func TestOwnWatchesShareNoConnection(t *testing.T) {
	for _, own := range []bool{false, true} {
		f := apitest.New(t)
		var mu sync.Mutex
		from := make(map[bool]map[string]bool) // the client's addresses, by whether they watch
		from[false], from[true] = make(map[string]bool), make(map[string]bool)
		f.Hold = func(r *http.Request) <-chan struct{} {
			mu.Lock()
			defer mu.Unlock()
			from[r.URL.Query().Has("watch")][r.RemoteAddr] = true
			return nil
		}
		files := certtest.NewFiles(t)
		certtest.New(t).Write(files, netip.MustParseAddr("127.0.0.1"), time.Hour)
		pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
		if err != nil {
			t.Fatal(err)
		}
		secure := serveTLS(t, f, &tls.Config{Certificates: []tls.Certificate{pair}}, true)
		kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
		replace(t, kubeconfig, fmt.Sprintf(`{"clusters":[{"name":"c","cluster":{"server":%q,"certificate-authority":%q}}],
			"contexts":[{"name":"x","context":{"cluster":"c"}}],"current-context":"x"}`, secure.URL, files.CA))
		put(f, "a", "1")
		c := newClient(t, Options{Kubeconfig: kubeconfig, OwnWatches: own})
		s, _ := watching(t, c, WholeNode, noteOf)
		s.works(t)
		for range 5 {
			if err := Get(t.Context(), c, Path(Nodes, "a"), WholeNode, new(Node)); err != nil {
				t.Fatal(err)
			}
		}
		mu.Lock()
		for address := range from[true] {
			if from[false][address] == own {
				t.Errorf("own watches %t: watches from %v, others from %v", own, from[true], from[false])
			}
		}
		mu.Unlock()
	}
}

// TestChangedKubeconfigIsUsed: a client uses a new kubeconfig from the next request on, and
// ignores an invalid one.
func TestChangedKubeconfigIsUsed(t *testing.T) {
	f := apitest.New(t)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	write := func(server string) {
		t.Helper()
		replace(t, path, fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"c","clusters":[{"name":"c","cluster":{"server":%q}}],"contexts":[{"name":"c","context":{"cluster":"c"}}]}`, server))
	}
	write("http://127.0.0.1:1")
	s, w := watching(t, newClient(t, Options{Kubeconfig: path}), WholeNode, noteOf)
	s.fails(t, "connection refused")
	replace(t, path, "rubbish")
	s.fails(t, "connection refused")
	write(f.URL)
	s.works(t)
	replace(t, path, "rubbish")
	f.Cut()
	kerneltest.Eventually(t, soon, func() error {
		if n := f.Asked("GET"); n < 2 {
			return fmt.Errorf("%d watches", n)
		}
		return nil
	})
	if got := w.Client.Server(); got != f.URL {
		t.Errorf("goes by %s", got)
	}
}

// TestRequestsReadChangeAndRefuse reads and changes an object, and gets refusals.
func TestRequestsReadChangeAndRefuse(t *testing.T) {
	f := apitest.New(t)
	c := newClient(t, Options{Server: f.URL})
	put(f, "a b", "1")
	var n Node
	if err := Get(t.Context(), c, Path(Nodes, "a b"), WholeNode, &n); err != nil {
		t.Fatal(err)
	}
	if name, text := noteOf(&n); name != "a b" || text != "1" {
		t.Errorf("read %s, %s", name, text)
	}
	change := []byte(`{"metadata":{"annotations":{"` + note + `":"2"}}}`)
	var now custom
	if err := Patch(t.Context(), c, Path(Nodes, "a b"), MergePatch, change, JSON[custom]("Node"), &now); err != nil {
		t.Fatal(err)
	}
	if name, text := customNote(&now); name != "a b" || text != "2" || now.Spec.PodCIDR == "" {
		t.Errorf("changed to %+v", now)
	}
	created := custom{}
	created.Metadata.Name = "c"
	if err := Create(t.Context(), c, Nodes, JSON[custom]("Node"), &created); err != nil || f.Node("c") == nil || created.Spec.PodCIDR == "" {
		t.Errorf("created %+v: %v", created, err)
	}
	const query = "?fieldManager=test&fieldValidation=Ignore"
	if f.Asked("PATCH /api/v1/nodes/a%20b"+query) != 1 || f.Asked("POST /api/v1/nodes"+query) != 1 {
		t.Errorf("%v", f.Requests())
	}
	err := Get(t.Context(), c, Path(Nodes, "none"), WholeNode, &n)
	if Code(err) != http.StatusNotFound || !strings.Contains(err.Error(), "not found") {
		t.Errorf("of none: %v", err)
	}
	if err := Get(t.Context(), c, Path(Nodes, "c"), JSON[custom]("Pod"), &now); !errors.Is(err, ErrUnreadable) {
		t.Errorf("a Node in a Pod's place: %v", err)
	}
}

// TestRefusalsAreReadInEachEncoding: a refusal's message is read whatever its
// encoding.
func TestRefusalsAreReadInEachEncoding(t *testing.T) {
	f := apitest.New(t)
	c := newClient(t, Options{Server: f.URL})
	busy := apitest.Refusal(http.StatusTooManyRequests, "busy")
	busy.Details = &metav1.StatusDetails{RetryAfterSeconds: 7}
	lost := apitest.Refusal(http.StatusGatewayTimeout, "Too large resource version")
	lost.Details = &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: tooNewCause}}}
	for _, want := range []struct {
		refusal *metav1.Status
		is      Error
	}{
		{busy, Error{Code: 429, Reason: "TooManyRequests", Message: "busy", After: 7 * time.Second}},
		{lost, Error{Code: 504, Reason: "Timeout", Message: "Too large resource version", Lost: true}},
	} {
		f.Do(func() { f.Refuse = func(*http.Request) *metav1.Status { return want.refusal } })
		var n Node
		var o custom
		for name, err := range map[string]error{
			"protobuf":      Get(t.Context(), c, Path(Nodes, "a"), WholeNode, &n),
			"metadata-only": Get(t.Context(), c, Path(Nodes, "a"), NodeMetadata, &n),
			"JSON":          Get(t.Context(), c, Path(Nodes, "a"), JSON[custom]("Node"), &o),
		} {
			if got, ok := errors.AsType[*Error](err); !ok || *got != want.is {
				t.Errorf("%s: %+v, want %+v", name, err, want.is)
			}
		}
	}
	f.Do(func() {
		f.Refuse = nil
		f.Answer = func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Retry-After", "3")
			http.Error(w, "<html>"+strings.Repeat("x", 1000), http.StatusBadGateway)
			return true
		}
	})
	var n Node
	err := Get(t.Context(), c, Path(Nodes, "a"), WholeNode, &n)
	if got, ok := errors.AsType[*Error](err); !ok || got.Code != 502 || got.After != 3*time.Second || len(err.Error()) > 400 {
		t.Errorf("a proxy's: %v", err)
	}
}
