package kube

import (
	"context"
	"fmt"
	"sync"

	"github.com/tulle-net/tulle/pkg/kube"
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

// Store is a network in a Kubernetes cluster. A watch of its own Node and one of all
// others, from the first use to Close, keep a book of all Nodes, which all else goes
// by; what it writes is its own Node alone, and only what differs there.
type Store struct {
	options     Options
	annotations annotations
	client      *kube.Client
	book        *book
	trouble     trouble.Log
	itself      follower
	others      follower

	start   sync.Once
	context context.Context // of the followers
	ended   context.CancelFunc
	running sync.WaitGroup

	mu        sync.Mutex
	config    subnet.Config // that was of use last
	claimed   subnet.Attrs  // by the last Acquire
	published subnet.Attrs  // what that came to, with what people overwrote
}

// Open makes a store. It waits for no API server.
func Open(o Options) (*Store, error) {
	a, err := newAnnotations(o.Prefix)
	if err != nil {
		return nil, err
	}
	c, err := kube.NewClient(kube.Options{Server: o.Server, Kubeconfig: o.Kubeconfig, Name: "tulled"})
	switch {
	case err != nil && o.Server == "" && o.Kubeconfig == "":
		return nil, fmt.Errorf("%w; outside a pod give --kubeconfig-file or --kube-api-url", err)
	case err != nil:
		return nil, err
	}
	s := &Store{trouble: trouble.Log{Explain: explain}, options: o, annotations: a, client: c, book: newBook(a)}
	s.itself.Store, s.itself.scope, s.itself.what = s, itself, "watching this Node"
	s.others.Store, s.others.scope, s.others.what = s, others, "watching the Nodes"
	s.context, s.ended = context.WithCancel(context.Background())
	return s, nil
}

// begin has the book be kept from now on.
func (s *Store) begin() {
	s.start.Do(func() {
		s.running.Go(func() { s.follow(s.context) })
	})
}

// follow keeps the book until ctx ends. The others are looked for once it is known
// what the own podCIDRs are, or that there are none; whole then, until there are.
func (s *Store) follow(ctx context.Context) {
	if s.identify(ctx) != nil {
		return // it fails with ctx alone
	}
	if s.book.own() != "" {
		s.running.Go(func() { s.itself.begin().Run(ctx) })
		s.running.Go(func() { s.check(ctx) })
		shaped := false
		if s.await(ctx, func(b *book) bool { shaped = b.holders.shaped(); return b.listed[itself] }) != nil {
			return
		}
		if !shaped {
			s.running.Go(func() {
				if s.await(ctx, func(b *book) bool { return b.holders.shaped() }) == nil {
					s.others.watch.Restart()
				}
			})
		}
	}
	s.others.begin().Run(ctx)
}

// await waits until the book is as it is to be.
func (s *Store) await(ctx context.Context, met func(*book) bool) error {
	for {
		s.book.mu.Lock()
		is, changed := met(s.book), s.book.changed
		s.book.mu.Unlock()
		if is {
			return nil
		}
		if err := wait(ctx, changed); err != nil {
			return err
		}
	}
}

// identify finds out which Node this is.
func (s *Store) identify(ctx context.Context) error {
	name := s.options.NodeName
	if name == "" && s.options.PodName != "" {
		err := s.retry(ctx, "finding the Node of pod "+s.options.PodNamespace+"/"+s.options.PodName, func(ctx context.Context) error {
			var err error
			name, err = s.nodeOf(ctx, s.options.PodNamespace, s.options.PodName)
			return err
		})
		if err != nil {
			return err
		}
	}
	s.book.mu.Lock()
	defer s.book.mu.Unlock()
	s.book.name = name
	s.book.wake()
	return nil
}

// Server returns the API server's URL.
func (s *Store) Server() string { return s.client.Server() }

// Close lets go of the API server. What is published stays.
func (s *Store) Close() error {
	s.ended()
	s.start.Do(func() {}) // none begins any more
	s.running.Wait()
	s.client.Close()
	return nil
}

// Status tells how the store does. Nothing is ever renewed: a Node's lease has no end.
func (s *Store) Status() trouble.Status {
	failing, last := s.trouble.List()
	since, revision := s.others.watch.Progress()
	ownSince, ownRevision := s.itself.watch.Progress()
	status := trouble.Status{Failing: failing, Last: last, Watching: since, Revision: max(revision, ownRevision)}
	if s.book.own() != "" && (ownSince.IsZero() || ownSince.After(since) && !since.IsZero()) {
		status.Watching = ownSince
	}
	return status
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
		u, ok, changed := s.book.nextUpdate(r)
		if ok {
			to(u)
		}
		if err := wait(ctx, changed); err != nil {
			return err
		}
	}
}
