//go:build kube

package kubernetes

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/kube/apitest"
)

// witness records which rights replicas of tulle-controller use on a control plane, where
// they have those of a manifest.
type witness struct {
	l         lab
	token     string
	granted   map[right]bool
	tokenFile string
	program   string
	of        container
	env       []string // beside the container's
	mu        sync.Mutex
	uses      map[right]bool
}

func newWitness(t *testing.T, manifest []object, env ...string) *witness {
	t.Helper()
	w := &witness{
		program: controllerProgram(t), of: find[deployment](t, manifest, "Deployment").Spec.Template.Spec.Containers[0], env: env,
		granted: rightsOf(t, manifest), uses: make(map[right]bool), tokenFile: filepath.Join(t.TempDir(), "token"),
	}
	w.l, w.token = controlled(t, manifest)
	if err := os.WriteFile(w.tokenFile, []byte(w.token), 0o600); err != nil {
		t.Fatal(err)
	}
	return w
}

// note takes a request as a use of the right that grants it.
func (w *witness) note(r *http.Request) {
	need := rightFor(r)
	if all := (right{need.verb, need.resource, need.namespace, ""}); w.granted[all] {
		need = all
	} else if all.namespace = ""; w.granted[all] {
		need = all
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.uses[need] = true
}

// used returns the rights that were used.
func (w *witness) used() map[right]bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.uses)
}

// await waits until a right was used.
func (w *witness) await(r right) {
	w.l.t.Helper()
	kerneltest.Eventually(w.l.t, patience, func() error {
		if !w.used()[r] {
			return fmt.Errorf("%v was not used", r)
		}
		return nil
	})
}

// replica runs tulle-controller, with or without lists as streams. No write of it may be
// refused.
func (w *witness) replica(streams bool) *kerneltest.Process {
	t := w.l.t
	t.Helper()
	proxy := w.l.Proxy()
	proxy.Answer(func(r *http.Request) http.HandlerFunc {
		w.note(r)
		if apitest.AsksForStream(r) && !streams {
			return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no streams", http.StatusBadRequest) }
		}
		return nil
	})
	p := kerneltest.Launch(t, "", append(w.of.environment(), w.env...), append(append([]string{w.program}, w.of.Args...), "--healthz-port=0", "--kubeconfig="+w.l.KubeconfigAt(proxy.URL, w.tokenFile))...)
	t.Cleanup(func() {
		p.End(syscall.SIGKILL)
		said := p.Said()
		for _, refusal := range []string{"orbidden", "answers 403", "denied", only} {
			if strings.Contains(said, refusal) {
				t.Errorf("a replica was refused something: %q", refusal)
			}
		}
		if t.Failed() {
			t.Logf("a replica says\n%s", said)
		}
	})
	return p
}

// awaitPodCIDR waits until a Node has a podCIDR.
func (w *witness) awaitPodCIDR(node string) {
	w.l.t.Helper()
	kerneltest.Eventually(w.l.t, patience, func() error {
		var n struct{ Spec struct{ PodCIDR string } }
		if w.l.Do(http.MethodGet, "/api/v1/nodes/"+node, nil, &n); n.Spec.PodCIDR == "" {
			return fmt.Errorf("%s has no podCIDR", node)
		}
		return nil
	})
}
