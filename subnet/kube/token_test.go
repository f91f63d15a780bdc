package kube

import (
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
