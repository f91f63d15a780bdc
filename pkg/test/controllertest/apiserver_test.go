//go:build kube

package controllertest

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// outage is how long the API server is frozen or down.
const outage = 3 * time.Second

// TestFailingAPIServerLosesNoBlock makes the API server fail in every known way, while Nodes are
// created and deleted.
func TestFailingAPIServerLosesNoBlock(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a := l.audit()
	controller := l.tulleAs(a.kubeconfig, append(tight, "--leader-elect=false")...)
	l.add("first")
	l.served(patience)
	number := 0
	next := func() (name string) {
		number++
		return fmt.Sprintf("node-%d", number)
	}
	// answers refuses the first count requests about Nodes that to selects.
	answers := func(code int, reason string, count int32, header map[string]string, to func(*http.Request) bool) {
		t.Helper()
		var given atomic.Int32
		a.Answer(func(r *http.Request) http.HandlerFunc {
			if !to(r) || given.Add(1) > count {
				return nil
			}
			return refusing(code, reason, header)
		})
		a.Reset() // including watches
		began := time.Now()
		l.addAtOnce(next(), next(), next())
		l.served(patience)
		t.Logf("%d %s: all Nodes have podCIDRs after %v, %d requests", code, reason, time.Since(began).Round(time.Millisecond), given.Load())
		a.Answer(nil)
	}
	toNodes := func(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, nodesPath) }

	// Nodes change between the controller's decision and its write, for example by a
	// kubelet's heartbeat.
	var conflicts atomic.Int32
	a.Answer(func(r *http.Request) http.HandlerFunc {
		if writesNode(r) && conflicts.Add(1) <= 5 {
			change := map[string]any{"metadata": map[string]any{"annotations": map[string]string{"example.org/changed": fmt.Sprint(conflicts.Load())}}}
			if err := l.Try(http.MethodPatch, r.URL.Path, change, nil); err != nil {
				t.Error(err)
			}
		}
		return nil
	})
	l.addAtOnce(next(), next(), next())
	l.served(patience)
	a.Answer(nil)

	answers(http.StatusInternalServerError, "InternalError", 5, nil, writesNode)
	answers(http.StatusTooManyRequests, "TooManyRequests", 2, map[string]string{"Retry-After": "1"}, writesNode)
	answers(http.StatusGone, "Expired", 2, nil, toNodes)
	answers(http.StatusTooManyRequests, "TooManyRequests", 3, map[string]string{"Retry-After": "1"}, toNodes)
	answers(http.StatusInternalServerError, "InternalError", 3, nil, toNodes)

	// An answer is lost after the server has applied the write.
	a.Answer(func(r *http.Request) http.HandlerFunc {
		if !writesNode(r) || rand.N(2) == 0 {
			return nil
		}
		return func(w http.ResponseWriter, r *http.Request) {
			answer, err := l.forward(r)
			if err == nil {
				answer.Body.Close()
			}
			panic(http.ErrAbortHandler)
		}
	})
	l.addAtOnce(next(), next(), next(), next(), next(), next())
	l.served(patience)
	a.Answer(nil)

	l.Freeze()
	a.Reset()
	<-time.After(outage)
	l.Thaw()
	l.add(next())
	l.served(patience)

	l.Kill()
	<-time.After(outage)
	l.Restart()
	began := time.Now()
	l.addAtOnce(next(), next())
	l.served(patience)
	t.Logf("after the API server's restart: %v", time.Since(began).Round(time.Millisecond))
	l.fill()
	stop(t, controller)
}

// refusing returns a handler that refuses a request, in the format of the API server.
func refusing(code int, reason string, header map[string]string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for name, value := range header {
			w.Header().Set(name, value)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"said by a test","reason":%q,"code":%d}`, reason, code)
	}
}
