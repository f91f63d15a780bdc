//go:build kube

package controllertest

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/tulle-net/tulle/pkg/kube"
	"github.com/tulle-net/tulle/pkg/test/kubetest"
)

// audit is a proxy that records all requests, and may answer them itself.
type audit struct {
	*kubetest.Proxy
	kubeconfig string // tulle-controller's, through the proxy

	mu     sync.Mutex
	said   []string // "METHOD path"
	answer func(*http.Request) http.HandlerFunc
}

func (l *lab) audit() *audit {
	l.t.Helper()
	file := filepath.Join(l.t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(l.Token("kube-system", account).Text), 0o600); err != nil {
		l.t.Fatal(err)
	}
	a := &audit{Proxy: l.Proxy()}
	a.kubeconfig = l.KubeconfigAt(a.URL, file)
	a.Proxy.Answer(func(r *http.Request) http.HandlerFunc {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.said = append(a.said, r.Method+" "+r.URL.Path)
		if a.answer != nil {
			return a.answer(r)
		}
		return nil
	})
	return a
}

// Answer sends each request to the handler that f returns for it. The proxy forwards a request
// if f or the handler is nil.
func (a *audit) Answer(f func(*http.Request) http.HandlerFunc) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.answer = f
}

// requests returns the requests so far that have a prefix.
func (a *audit) requests(prefix string) (all []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, r := range a.said {
		if strings.HasPrefix(r, prefix) {
			all = append(all, r)
		}
	}
	return all
}

// writesNode reports whether a request writes to a Node.
func writesNode(r *http.Request) bool {
	return r.Method == http.MethodPatch && strings.HasPrefix(r.URL.Path, "/"+kube.Nodes+"/")
}
