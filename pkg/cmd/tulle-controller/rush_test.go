package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"path"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tulle-net/tulle/pkg/kube/apitest"
)

// replay is an API server that costs little: its answers were encoded before the test. It
// has Nodes. Their watch shows the creation of each, and each patch as a change.
type replay struct {
	t       testing.TB
	nodes   []*corev1.Node
	created [][]byte    // the event of each Node
	answers [][]byte    // to the patch of each Node
	events  chan []byte // which the watch sends

	mu      sync.Mutex
	patched map[string]bool
	twice   int
	all     chan struct{} // closed when every Node was patched
}

const protobuf = "application/vnd.kubernetes.protobuf"

func newReplay(t testing.TB, nodes int) *replay {
	r := &replay{t: t, patched: make(map[string]bool), all: make(chan struct{}), events: make(chan []byte, 2*nodes+1)}
	for i := range nodes {
		n := large(i)
		n.ResourceVersion = strconv.Itoa(1000 + i)
		r.created = append(r.created, apitest.Frame(t, "ADDED", "Node", n))
		n.ResourceVersion = strconv.Itoa(1000 + nodes + i)
		r.nodes = append(r.nodes, n)
		r.answers = append(r.answers, apitest.Wrap(t, "PartialObjectMetadata", &metav1.PartialObjectMetadata{ObjectMeta: n.ObjectMeta}))
	}
	return r
}

func bookmark(t testing.TB) []byte {
	return apitest.Frame(t, "BOOKMARK", "Node", &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		UID: types.UID("x"), ResourceVersion: "900", Annotations: map[string]string{"k8s.io/initial-events-end": "true"},
	}})
}

func answerOf(r *http.Request, code int, kind string, body io.ReadCloser) *http.Response {
	return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {kind}}, Body: body, Request: r, ContentLength: -1}
}

// RoundTrip implements http.RoundTripper.
func (s *replay) RoundTrip(r *http.Request) (*http.Response, error) {
	switch {
	case r.Method == http.MethodPatch:
		i, err := strconv.Atoi(path.Base(r.URL.Path)[len("node-"):])
		if err != nil {
			return nil, err
		}
		var change struct{ Spec struct{ PodCIDRs []string } }
		if err := json.NewDecoder(r.Body).Decode(&change); err != nil {
			return nil, err
		}
		s.nodes[i].Spec.PodCIDRs = change.Spec.PodCIDRs
		s.events <- apitest.Frame(s.t, "MODIFIED", "Node", s.nodes[i])
		s.mu.Lock()
		if s.patched[r.URL.Path] {
			s.twice++
		}
		s.patched[r.URL.Path] = true
		if len(s.patched) == len(s.created) {
			close(s.all)
		}
		s.mu.Unlock()
		return answerOf(r, http.StatusOK, protobuf, io.NopCloser(bytes.NewReader(s.answers[i]))), nil
	case r.Method == http.MethodGet && r.URL.Path == "/api/v1/nodes":
		out, in := io.Pipe()
		go func() {
			for {
				select {
				case e := <-s.events:
					if _, err := in.Write(e); err != nil {
						return
					}
				case <-r.Context().Done():
					in.CloseWithError(r.Context().Err())
					return
				}
			}
		}()
		return answerOf(r, http.StatusOK, protobuf, out), nil
	}
	return answerOf(r, http.StatusNotFound, "application/json", io.NopCloser(bytes.NewReader([]byte(`{"kind":"Status","code":404}`)))), nil
}

// BenchmarkRush creates Nodes at once while the program runs, on an API server that
// costs nothing. It reports what the program itself needs for each Node.
func BenchmarkRush(b *testing.B) {
	for _, nodes := range []int{500, 5000} {
		b.Run(strconv.Itoa(nodes), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				s := newReplay(b, nodes)
				s.events <- bookmark(b)
				p, err := settingsOf(b, append([]string{"--master=http://in.process", "--leader-elect=false"}, append(basic, "--cluster-cidr=10.0.0.0/10")...)...).connect()
				if err != nil {
					b.Fatal(err)
				}
				p.client.Wrap(func(http.RoundTripper) http.RoundTripper { return s })
				ctx, cancel := context.WithCancel(context.Background())
				ended := make(chan struct{})
				go func() { defer close(ended); p.run(ctx) }()
				if err := p.engine.Await(ctx); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
				began, before := time.Now(), processorTime(b)
				go func() {
					for _, e := range s.created {
						s.events <- e
					}
				}()
				<-s.all
				b.ReportMetric(float64(time.Since(began).Microseconds())/float64(nodes), "µs/node")
				b.ReportMetric(float64((processorTime(b)-before).Microseconds())/float64(nodes), "cpu-µs/node")
				if s.twice > 0 {
					b.Errorf("%d Nodes were patched twice", s.twice)
				}
				cancel()
				<-ended
			}
		})
	}
}

func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
