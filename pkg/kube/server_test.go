//go:build kube

package kube

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/test/etcdtest"
	"github.com/tulle-net/tulle/pkg/test/kubetest"
)

func TestMain(m *testing.M) {
	etcdtest.Main()
	goleak.VerifyTestMain(m)
}

// widgets are custom resources.
const widgets = "apis/example.org/v1/widgets"

// define defines the kind of widgets, and waits until the server knows it.
func define(t *testing.T, c *kubetest.Cluster) {
	t.Helper()
	c.Do(http.MethodPost, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", map[string]any{
		"metadata": map[string]any{"name": "widgets.example.org"},
		"spec": map[string]any{
			"group": "example.org", "scope": "Cluster", "names": map[string]any{"plural": "widgets", "kind": "Widget", "listKind": "WidgetList"},
			"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true, "schema": map[string]any{
				"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true},
			}}},
		},
	}, nil)
	kerneltest.Eventually(t, soon, func() error { return c.Try(http.MethodGet, "/"+widgets, nil, nil) })
}

// asked records the queries of a client's lists and watches, and their results.
type asked struct {
	http.RoundTripper
	mu  sync.Mutex
	all []string
}

func (a *asked) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := a.RoundTripper.RoundTrip(r)
	if err == nil && r.Method == http.MethodGet {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.all = append(a.all, fmt.Sprint(answer.StatusCode, " ", r.URL.RawQuery))
	}
	return answer, err
}

// count counts the queries that contain a part.
func (a *asked) count(part string) (n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, one := range a.all {
		if strings.Contains(one, part) {
			n++
		}
	}
	return n
}

// TestServer watches a real API server's Nodes, whole and metadata-only, and custom
// resources. It runs with and without streamed lists, and kills the server.
func TestServer(t *testing.T) {
	for _, streams := range []bool{true, false} {
		t.Run(fmt.Sprintf("streaming %t", streams), func(t *testing.T) {
			c := kubetest.Start(t, kubetest.Options{Flags: []string{fmt.Sprintf("--feature-gates=WatchList=%t", streams)}})
			t.Cleanup(c.Client().CloseIdleConnections)
			define(t, c)
			t.Run("whole", func(t *testing.T) { followsServer(t, c, streams, Nodes, WholeNode, noteOf) })
			t.Run("metadata-only", func(t *testing.T) { followsServer(t, c, streams, Nodes, NodeMetadata, noteOf) })
			t.Run("custom", func(t *testing.T) { followsServer(t, c, streams, widgets, JSON[custom]("Widget"), customNote) })
		})
	}
}

// TestServerRules tries with a real API server what TestRules tries with apitest's.
func TestServerRules(t *testing.T) {
	c := kubetest.Start(t, kubetest.Options{})
	for _, namespace := range []string{"default", "kube-public"} { // the server makes them a moment after it is ready
		kerneltest.Eventually(t, soon, func() error { return c.Try(http.MethodGet, "/api/v1/namespaces/"+namespace, nil, nil) })
	}
	for name, try := range rules {
		t.Run(name, func(t *testing.T) { try(t, newClient(t, Options{Kubeconfig: c.Admin()})) })
	}
}

func followsServer[T any](t *testing.T, c *kubetest.Cluster, streams bool, path string, format Format[T], read func(*T) (name, note string)) {
	put := func(name, text string) {
		t.Helper()
		c.Do(http.MethodPost, "/"+path, map[string]any{
			"apiVersion": "example.org/v1", "kind": "Widget", "metadata": map[string]any{"name": name, "annotations": map[string]any{note: text}},
		}, nil)
	}
	if path == Nodes {
		put = func(name, text string) {
			t.Helper()
			c.Do(http.MethodPost, "/"+path, map[string]any{"metadata": map[string]any{"name": name, "annotations": map[string]any{note: text}}}, nil)
		}
	}
	set := func(name, text string) {
		t.Helper()
		c.Do(http.MethodPatch, "/"+path+"/"+name, map[string]any{"metadata": map[string]any{"annotations": map[string]any{note: text}}}, nil)
	}
	remove := func(name string) { t.Helper(); c.Do(http.MethodDelete, "/"+path+"/"+name, nil, nil) }
	put("a", "1")
	put("b", "1")
	client, requests := newClient(t, Options{Kubeconfig: c.Admin()}), new(asked)
	client.Wrap(func(to http.RoundTripper) http.RoundTripper {
		requests.RoundTripper = to
		return requests
	})
	s := &seen[T]{read: read}
	run(t, &Watch[T]{Client: client, Path: path, Format: format, Sink: s, Report: s.report})
	is := func(want map[string]string) {
		t.Helper()
		s.await(t, fmt.Sprint(want), func() bool { return maps.Equal(s.objects, want) })
	}
	is(map[string]string{"a": "1", "b": "1"})
	put("c", "1")
	set("a", "2")
	remove("b")
	is(map[string]string{"a": "2", "c": "1"})
	streamed, inPages := requests.count("sendInitialEvents"), requests.count("limit=")
	if want := map[bool]int{true: 0, false: 1}[streams]; streamed != 1 || inPages != want {
		t.Errorf("%d streamed lists and %d pages were asked for: %v", streamed, inPages, requests.all)
	}
	c.Kill()
	s.await(t, "failing", func() bool { return s.failing != nil })
	c.Restart()
	kerneltest.Eventually(t, soon, func() error { return c.Try(http.MethodGet, "/"+path, nil, nil) }) // it learns of custom resources late
	set("c", "2")
	is(map[string]string{"a": "2", "c": "2"})
	s.works(t)
	remove("a")
	remove("c")
	is(map[string]string{})
}
