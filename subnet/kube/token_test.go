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
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tulle-net/tulle/pkg/test/certtest"
)

// TestTokenRotated: a server that does not believe a token any more is shown the
// one that the file has by then, and not the one before for a minute more.
func TestTokenRotated(t *testing.T) {
	f := newFake(t)
	var valid atomic.Value
	valid.Store("first")
	f.refuse = func(r *http.Request) *metav1.Status {
		if r.Header.Get("Authorization") != "Bearer "+valid.Load().(string) {
			return &metav1.Status{Code: http.StatusUnauthorized, Message: "not believed"}
		}
		return nil
	}
	// To one without TLS a token is not shown.
	secure := httptest.NewTLSServer(http.HandlerFunc(f.serve))
	t.Cleanup(func() {
		f.cut()
		secure.CloseClientConnections()
		secure.Close()
	})
	dir := t.TempDir()
	token, kubeconfig := filepath.Join(dir, "token"), filepath.Join(dir, "kubeconfig")
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(token, "first")
	ca := filepath.Join(dir, "ca.pem")
	write(ca, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw})))
	write(kubeconfig, fmt.Sprintf(`{"clusters":[{"name":"c","cluster":{"server":%q,"certificate-authority":%q}}],"users":[{"name":"u","user":{"tokenFile":%q}}],
		"contexts":[{"name":"x","context":{"cluster":"c","user":"u"}}],"current-context":"x"}`, secure.URL, ca, token))
	l := newLab(t, f.url(), f.client(), Options{Kubeconfig: kubeconfig})
	s := l.watch("node-1")
	s.await(t, "listed", func() bool { return s.lists == 1 })
	valid.Store("second")
	f.cut()
	l.failing("node-1", "Watching the Nodes", "does not believe who we are")
	write(token, "second")
	l.failing("node-1", "Watching the Nodes")
}

// TestAuthoritiesChange: a server whose certificate is another authority's from now
// on is believed as soon as the file of the authorities has that one.
func TestAuthoritiesChange(t *testing.T) {
	f := newFake(t)
	var shown atomic.Pointer[tls.Certificate]
	// sign has the server show a certificate of a new authority, whose file it returns.
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
	secure := httptest.NewUnstartedServer(http.HandlerFunc(f.serve))
	secure.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return &tls.Config{Certificates: []tls.Certificate{*shown.Load()}}, nil
	}}
	secure.StartTLS()
	t.Cleanup(func() {
		f.cut()
		secure.CloseClientConnections()
		secure.Close()
	})
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, fmt.Appendf(nil, `{"clusters":[{"name":"c","cluster":{"server":%q,"certificate-authority":%q}}],
		"contexts":[{"name":"x","context":{"cluster":"c"}}],"current-context":"x"}`, secure.URL, ca), 0o600); err != nil {
		t.Fatal(err)
	}
	l := newLab(t, f.url(), f.client(), Options{Kubeconfig: kubeconfig})
	s := l.watch("node-1")
	s.await(t, "listed", func() bool { return s.lists == 1 })
	next := sign()
	secure.CloseClientConnections()
	l.failing("node-1", "Watching the Nodes", "none of the authorities")
	put := func(from string) {
		t.Helper()
		text, err := os.ReadFile(from)
		if err == nil {
			err = errors.Join(os.WriteFile(ca+".new", text, 0o600), os.Rename(ca+".new", ca))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	put(kubeconfig) // which is none
	l.failing("node-1", "Watching the Nodes", "none of the authorities")
	put(next)
	l.failing("node-1", "Watching the Nodes")
}
