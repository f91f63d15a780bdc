package kube

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/kube/apitest"
)

// soon is longer than a server's start and a client's longest back-off.
const soon = 40 * time.Second

// seen is a Sink that records the objects and its Watch's reports.
type seen[T any] struct {
	read func(object *T) (name, note string)

	mu      sync.Mutex
	objects map[string]string // notes, by name
	lists   int
	least   int // fewest objects since the first list
	failing error
	failed  int // failures that were reported
}

// list is a list of seen.
type list[T any] struct {
	seen    *seen[T]
	objects map[string]string
}

func (s *seen[T]) List() List[T] { return &list[T]{s, make(map[string]string)} }

func (s *seen[T]) Set(object *T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name, note := s.read(object)
	s.objects[name] = note
}

func (s *seen[T]) Delete(object *T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name, _ := s.read(object)
	delete(s.objects, name)
	s.least = min(s.least, len(s.objects))
}

func (l *list[T]) Add(object *T) (isNew bool) {
	name, note := l.seen.read(object)
	_, known := l.objects[name]
	l.objects[name] = note
	return !known
}

func (l *list[T]) Delete(object *T) {
	name, _ := l.seen.read(object)
	delete(l.objects, name)
}

func (l *list[T]) Done() bool {
	l.seen.mu.Lock()
	defer l.seen.mu.Unlock()
	if l.seen.lists == 0 {
		l.seen.least = len(l.objects)
	}
	l.seen.objects, l.seen.least = l.objects, min(l.seen.least, len(l.objects))
	l.seen.lists++
	return true
}

func (s *seen[T]) report(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failing = err; err != nil {
		s.failed++
	}
}

// await waits until what was seen meets a condition.
func (s *seen[T]) await(t testing.TB, what string, met func() bool) {
	t.Helper()
	kerneltest.Eventually(t, soon, func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if met() {
			return nil
		}
		return fmt.Errorf("not %s: %d lists, objects %v, failing: %v", what, s.lists, s.objects, s.failing)
	})
}

// fails waits until the watch reports a failure for a reason.
func (s *seen[T]) fails(t testing.TB, why string) {
	t.Helper()
	s.await(t, "failing: "+why, func() bool { return s.failing != nil && strings.Contains(s.failing.Error(), why) })
}

// works waits until the watch works.
func (s *seen[T]) works(t testing.TB) {
	t.Helper()
	s.await(t, "working", func() bool { return s.failing == nil && s.lists > 0 })
}

// note is the annotation that tests change.
const note = "example.org/note"

// noteOf returns a Node's name and note.
func noteOf(n *Node) (name, text string) {
	for _, a := range n.Annotations {
		if string(a.Key) == note {
			text = string(a.Value)
		}
	}
	return string(n.Name), text
}

// custom is an object in JSON.
type custom struct {
	Metadata struct {
		Name        string            `json:"name"`
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
	Spec struct {
		PodCIDR string `json:"podCIDR"`
	} `json:"spec"`
}

func customNote(c *custom) (name, text string) { return c.Metadata.Name, c.Metadata.Annotations[note] }

// newClient returns a client of a server.
func newClient(t testing.TB, o Options) *Client {
	t.Helper()
	o.Name = "test"
	c, err := NewClient(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// watching runs a watch of all Nodes until the test ends.
func watching[T any](t testing.TB, c *Client, f Format[T], read func(*T) (name, note string)) (*seen[T], *Watch[T]) {
	s := &seen[T]{read: read}
	w := &Watch[T]{Client: c, Path: Nodes, Format: f, Sink: s, Report: s.report}
	run(t, w)
	return s, w
}

// run runs a watch until the test ends.
func run[T any](t testing.TB, w *Watch[T]) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { w.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
}

// watchingWhole watches whole Nodes of a server.
func watchingWhole(t testing.TB, f *apitest.Server) (*seen[Node], *Watch[Node]) {
	return watching(t, newClient(t, Options{Server: f.URL}), WholeNode, noteOf)
}

// put creates a Node with a note, or changes its note.
func put(f *apitest.Server, name, text string) {
	f.Do(func() {
		n, kind := apitest.SmallNode(1), "ADDED"
		if before := f.Nodes[name]; before != nil {
			n, kind = before.DeepCopy(), "MODIFIED"
		}
		n.Name, n.Annotations = name, map[string]string{note: text}
		f.Change(kind, n)
	})
}

// remove deletes a Node.
func remove(f *apitest.Server, name string) {
	f.Do(func() { f.Change("DELETED", f.Nodes[name]) })
}
