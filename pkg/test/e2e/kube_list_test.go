//go:build kube

package e2e

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/test/clustertest"
	"github.com/tulle-net/tulle/pkg/test/kubetest"
)

// fellBack is what a daemon logs once, when it falls back to lists in pages.
const fellBack = "Fell back to lists in pages"

// upWithin waits until a daemon that just started has written its env file. It fails
// the test if that takes longer than limit.
func (k *kubeWorld) upWithin(h *clustertest.Host, began time.Time, bound time.Duration) {
	k.t.Helper()
	kerneltest.Eventually(k.t, bound, func() error {
		_, err := subnetsOf(h)
		return err
	})
	k.t.Logf("%s has its env file %v after its start", h.Name, time.Since(began).Round(time.Millisecond))
}

// TestKubeOldEtcd checks that daemons start even if the API server's etcd is too old to
// report progress. Such a server answers every streamed list with an event of the code
// 500.
func TestKubeOldEtcd(t *testing.T) {
	t.Parallel()
	program, err := exec.LookPath("etcd")
	if err != nil {
		t.Fatal(err)
	}
	k := newKubeWorld(t, 2, dualNetwork, false, func(o *kubetest.Options) { o.EtcdProgram = program })
	r, err := k.api.Client().Get(k.api.URL + nodesPath + "?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=1")
	if err != nil {
		t.Fatal(err)
	}
	said, _ := io.ReadAll(r.Body)
	r.Body.Close()
	if !strings.Contains(string(said), "RequestWatchProgress is disabled") {
		t.Fatalf("this etcd does not make the server refuse: %d %s", r.StatusCode, said)
	}
	for _, h := range k.Hosts {
		k.register(h)
	}
	for _, h := range k.Hosts {
		k.given(h)
		k.token(h)
		began := time.Now()
		k.start(h)
		k.upWithin(h, began, 5*time.Second)
	}
	for _, h := range k.Hosts {
		h.AddPod()
	}
	k.Matrix()
	k.stranger(known, 250)
	k.eventually(func() error { return k.allHave("10.5.250.0", true) })
	k.follows()
	for _, h := range k.Hosts {
		k.says(h, "ready")
		k.storeWorks(h)
		log := k.daemons[h].Log()
		if n := strings.Count(log, fellBack); n != 1 || k.storeFailures(h) != 0 || !strings.Contains(log, "RequestWatchProgress is disabled") {
			t.Errorf("%s fell back %d times, and logs\n%s", h.Name, n, log)
		}
	}
}

// TestKubeStreamRefused checks that a daemon is ready within a limit, whatever the
// server answers to a streamed list.
func TestKubeStreamRefused(t *testing.T) {
	t.Parallel()
	k := newKubeWorld(t, 1, dualNetwork, true)
	h := k.Hosts[0]
	k.register(h)
	k.given(h)
	k.token(h)
	const atOnce = 5 * time.Second
	type way struct {
		name   string
		bound  time.Duration
		answer http.HandlerFunc
	}
	ways := []way{
		{"nothing in the way", atOnce, nil},
		{"an empty body", atOnce, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/vnd.kubernetes.protobuf;stream=watch")
		}},
		{"silence", 30 * time.Second, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }},
	}
	for _, code := range []int{400, 403, 404, 405, 422, 500, 501, 503} {
		ways = append(ways, way{fmt.Sprint(code), atOnce, func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "said by a test", code)
		}})
	}
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			before := k.t
			k.t = t
			defer func() { k.t = before }()
			k.proxy.Answer(func(r *http.Request) http.HandlerFunc {
				if r.URL.Query().Get("sendInitialEvents") == "" {
					return nil
				}
				return way.answer
			})
			began := time.Now()
			d := k.start(h)
			k.upWithin(h, began, way.bound)
			k.storeWorks(h)
			want := 1
			if way.answer == nil {
				want = 0
			}
			if n := strings.Count(d.Log(), fellBack); n != want {
				t.Errorf("it fell back %d times, and logs\n%s", n, d.Log())
			}
			d.Stop()
			// The next daemon must not know the state of this one.
			if err := os.Remove(h.SubnetFile); err != nil {
				t.Error(err)
			}
			if err := os.Remove(h.StateDir + "/snapshot"); err != nil && !os.IsNotExist(err) {
				t.Error(err)
			}
		})
	}
}
