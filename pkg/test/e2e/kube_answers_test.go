//go:build kube

package e2e

import (
	"flag"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/test/clustertest"
)

// answering returns a handler that gives one answer to all requests for Nodes.
func answering(code int, reason string, header map[string]string, count *atomic.Int64) func(*http.Request) http.HandlerFunc {
	return func(*http.Request) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			count.Add(1)
			for name, value := range header {
				w.Header().Set(name, value)
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(code)
			fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"said by a test","reason":%q,"code":%d}`, reason, code)
		}
	}
}

// TestKubeAnswers gives daemons the answers of an API server that is overloaded, slow
// or being upgraded, and rotates their tokens.
func TestKubeAnswers(t *testing.T) {
	t.Parallel()
	k := newKubeNetwork(t, 3, dualNetwork, true)
	one := k.Hosts[0]
	for _, h := range k.Hosts {
		k.says(h, k.proxy.URL)
	}
	// answers ends all watches, and gives this answer to new ones.
	answers := func(why string, code int, reason string, header map[string]string) func(*streams) {
		return func(pings *streams) {
			var count atomic.Int64
			k.proxy.Answer(answering(code, reason, header, &count))
			k.proxy.Reset()
			k.fails(k.Hosts, why)
			before := count.Load()
			pings.more(200)
			// Daemons must not add to a server's load.
			if n := count.Load() - before; n > 40 {
				t.Errorf("%d: %d requests in two seconds", code, n)
			}
			if n := count.Load(); n < 3 {
				t.Errorf("%d was answered %d times", code, n)
			}
			k.proxy.Answer(nil)
		}
	}
	underFaults(t, k,
		kubeFault{"reset", func(pings *streams) {
			for range 2 {
				k.proxy.Reset()
				pings.more(20)
			}
		}},
		kubeFault{"slow", func(pings *streams) {
			k.proxy.Delay(3 * time.Second)
			k.proxy.Reset()
			pings.more(50)
			k.annotate(one.Name, map[string]string{"tulle": "{}"})
			k.follows()
			k.proxy.Delay(0)
		}},
		kubeFault{"gone", func(pings *streams) {
			var gone, asked atomic.Int64
			refuse := answering(http.StatusGone, "Expired", nil, &gone)
			k.proxy.Answer(func(r *http.Request) http.HandlerFunc {
				// A watch from an earlier revision is too old; a new one is not.
				if q := r.URL.Query(); q.Get("watch") != "" && q.Get("sendInitialEvents") == "" {
					return refuse(r)
				}
				asked.Add(1)
				return nil
			})
			k.proxy.Reset()
			k.follows()
			if gone.Load() == 0 || asked.Load() == 0 {
				t.Errorf("%d watches were answered with 410, and %d other requests came", gone.Load(), asked.Load())
			}
			k.proxy.Answer(nil)
		}},
		kubeFault{"too many requests", answers("the API server is overloaded", http.StatusTooManyRequests, "TooManyRequests", map[string]string{"Retry-After": "1"})},
		kubeFault{"forbidden", answers("the API server does not allow it", http.StatusForbidden, "Forbidden", nil)},
		kubeFault{"tokens rotated", func(*streams) {
			k.tokens[one].Revoke()
			for _, h := range k.Hosts[1:] {
				k.rotate(h).Revoke()
			}
			k.eventually(func() error { // the server caches valid tokens for ten seconds
				if out, _ := k.command(one, "status"); !strings.Contains(out, "the API server rejects our identity") {
					k.annotate(one.Name, map[string]string{"tulle": "{}"})
					return fmt.Errorf("the revoked token is still accepted:\n%s", out)
				}
				return nil
			})
			k.proxy.Reset()
			k.rotate(one)
		}},
	)
	sane(t, k)
}

// sane fails the test if a daemon of the network has used more than its limits.
func sane(t *testing.T, k *kubeWorld) {
	t.Helper()
	for _, h := range k.Hosts {
		peak := k.daemons[h].PeakMemory() >> 20
		t.Logf("%s: %v of processor time, %d MiB at most", h.Name, k.daemons[h].CPU(), peak)
		if peak > 160 { // with a race detector; it uses 70
			t.Errorf("%s has used %d MiB", h.Name, peak)
		}
	}
}

var away = flag.Duration("away", 30*time.Second, "how long TestKubeAway stops the API server")

// TestKubeAway stops the API server for a long time. No packet is lost, no daemon
// floods the server with requests, and nothing has changed when it is back.
func TestKubeAway(t *testing.T) {
	t.Parallel()
	k := newKubeNetwork(t, 3, dualNetwork, false)
	said, err := k.published()
	if err != nil {
		t.Fatal(err)
	}
	kernels, cpu := k.kernels(), make(map[*clustertest.Host]time.Duration)
	for _, h := range k.Hosts {
		cpu[h] = k.daemons[h].CPU()
	}
	pings := k.everyPair()
	k.api.Kill()
	began := time.Now()
	k.fails(k.Hosts, "nothing listens")
	for time.Since(began) < *away {
		pings.more(100)
	}
	for _, h := range k.Hosts {
		// A race detector multiplies a daemon's processor time by about five.
		used := k.daemons[h].CPU() - cpu[h]
		t.Logf("%s: %v of processor time in %v, %d MiB at most", h.Name, used, time.Since(began), k.daemons[h].PeakMemory()>>20)
		if used > 5*time.Second+*away/20 {
			t.Errorf("%s used %v of processor time while its API server was away", h.Name, used)
		}
		k.says(h, "!NOT READY")
	}
	if now := k.kernels(); now != kernels {
		t.Errorf("the kernels hold\n%s\nand held\n%s", now, kernels)
	}
	k.api.Restart()
	k.follows()
	k.samePublished(said)
	for _, h := range k.Hosts {
		k.storeWorks(h)
	}
	pings.quiet(t)
}
