package kube

import (
	"context"
	"errors"
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
	// that the pod runs on.
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
	renewed   time.Time
}

// Open makes a store. It waits for no API server.
func Open(o Options) (*Store, error) {
	if o.NodeName == "" && (o.PodName == "" || o.PodNamespace == "") {
		return nil, errors.New("which Node this is has to be said: set NODE_NAME, or POD_NAME and POD_NAMESPACE, as the DaemonSet's manifest does with fieldRef")
	}
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

// Status is how a store does at present.
type Status struct {
	// Failing is what does not work, and why; empty when all is well.
	Failing map[string]string
	// Node is this host's; "" while it is not known.
	Node string
	// Renewed is when this node's Node was last found or made to be as it should;
	// zero before.
	Renewed time.Time
}

// Status tells how the store does.
func (s *Store) Status() Status {
	s.book.mu.Lock()
	node := s.book.name
	s.book.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	failing, _ := s.trouble.List()
	return Status{Failing: failing, Node: node, Renewed: s.renewed}
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
