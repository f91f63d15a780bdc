package kube

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tulle-net/tulle/pkg/trouble"
	"github.com/tulle-net/tulle/subnet"
)

// Options say which cluster the network is in, and which of its Nodes this is.
type Options struct {
	// Server and Kubeconfig say how to get to the API server; without either it is
	// the one that the pod belongs to.
	Server, Kubeconfig string
	// NodeName is the Node that this host is. Where it is empty, it is the one
	// that the pod runs on; without either it is none, and the store is to be read
	// only.
	NodeName, PodNamespace, PodName string
	// Prefix is what the network's annotations begin with, like
	// flannel.alpha.coreos.com.
	Prefix string
	// ConfigFile is where the network's config is, most often a mounted ConfigMap.
	ConfigFile string
}

// Store is a network in a Kubernetes cluster. One list and one watch, from the
// first use to Close, keep a book of all Nodes, which all else goes by; what it
// writes is its own Node alone, and only what differs there.
type Store struct {
	options     Options
	annotations annotations
	client      *client
	book        *book
	trouble     trouble.Log
	again       atomic.Pointer[context.CancelCauseFunc] // ends the session that is, if one is

	start   sync.Once
	context context.Context // of the follower
	ended   context.CancelFunc
	running sync.WaitGroup

	mu        sync.Mutex
	claimed   subnet.Attrs // by the last Acquire
	published subnet.Attrs // what that came to, with what people overwrote
	watching  time.Time    // since when, without a break
	revision  int64        // of the Nodes as they are known
}

// Open makes a store. It waits for no API server.
func Open(o Options) (*Store, error) {
	a, err := newAnnotations(o.Prefix)
	if err != nil {
		return nil, err
	}
	c, err := newClient(o)
	if err != nil {
		return nil, err
	}
	s := &Store{trouble: trouble.Log{Explain: explain}, options: o, annotations: a, client: c, book: newBook(a)}
	s.context, s.ended = context.WithCancel(context.Background())
	return s, nil
}

// begin has the book be kept from now on.
func (s *Store) begin() {
	s.start.Do(func() {
		s.running.Go(func() { (&follower{Store: s}).run(s.context) })
	})
}

// Close lets go of the API server. What is published stays.
func (s *Store) Close() error {
	s.ended()
	s.start.Do(func() {}) // none begins any more
	s.running.Wait()
	s.client.close()
	return nil
}

// Status tells how the store does. Nothing is ever renewed: a Node's lease has no end.
func (s *Store) Status() trouble.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	failing, last := s.trouble.List()
	return trouble.Status{Failing: failing, Last: last, Watching: s.watching, Revision: s.revision}
}

// Reload has nothing to do: all files are looked at again by themselves.
func (s *Store) Reload(context.Context) error { return nil }

// Node waits until it is known which Node this host is, and returns its name.
func (s *Store) Node(ctx context.Context) (string, error) {
	s.begin()
	for {
		s.book.mu.Lock()
		name, changed := s.book.name, s.book.changed
		s.book.mu.Unlock()
		if name != "" {
			return name, nil
		}
		if err := wait(ctx, changed); err != nil {
			return "", err
		}
	}
}

// Watch implements subnet.Store.
func (s *Store) Watch(ctx context.Context, to func(subnet.Update)) error {
	s.begin()
	r := &reader{all: true, touched: make(map[string]struct{})}
	s.book.mu.Lock()
	s.book.readers[r] = struct{}{}
	s.book.mu.Unlock()
	defer func() {
		s.book.mu.Lock()
		defer s.book.mu.Unlock()
		delete(s.book.readers, r)
	}()
	for {
		u, ok, changed := s.book.news(r)
		if ok {
			to(u)
		}
		if err := wait(ctx, changed); err != nil {
			return err
		}
	}
}
