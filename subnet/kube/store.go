package kube

import (
	"context"
	"fmt"
	"sync"

	"github.com/tulle-net/tulle/pkg/kube"
	"github.com/tulle-net/tulle/pkg/trouble"
	"github.com/tulle-net/tulle/subnet"
)

// Options select the cluster, and the Node that is this host.
type Options struct {
	// Server and Kubeconfig locate the API server. Without either it is the one of
	// the pod that the daemon runs in.
	Server, Kubeconfig string
	// NodeName is the name of this host's Node. If it is empty, the Node is the one
	// that the pod runs on. Without both there is none, and the store is read only.
	NodeName, PodNamespace, PodName string
	// Prefix is the beginning of the network's annotations, like
	// flannel.alpha.coreos.com.
	Prefix string
	// ConfigFile is the path of the network's config, usually in a mounted ConfigMap.
	ConfigFile string
	// Program is the user agent, the field manager of writes, and the source of events.
	Program string
	Names   Names
}

// Store is a network in a Kubernetes cluster. From the first use to Close it runs two
// watches, one of its own Node and one of all others. They keep a book of all Nodes,
// from which everything else is answered. The store writes only its own Node, and
// only what differs.
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
	config    subnet.Config // the last valid one
	claimed   subnet.Attrs  // by the last Acquire, without overwrites
	published subnet.Attrs  // the same, with overwrites
}

// Open returns a store. It does not wait for the API server.
func Open(o Options) (*Store, error) {
	o.Names = o.Names.orWords()
	a, err := newAnnotations(o.Prefix)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.Names.Prefix, err)
	}
	c, err := kube.NewClient(kube.Options{Server: o.Server, Kubeconfig: o.Kubeconfig, Name: o.Program})
	switch {
	case err != nil && o.Server == "" && o.Kubeconfig == "":
		return nil, fmt.Errorf("%w; outside a pod give %s or %s", err, o.Names.Kubeconfig, o.Names.Server)
	case err != nil:
		return nil, err
	}
	s := &Store{trouble: trouble.Log{Explain: explain}, options: o, annotations: a, client: c, book: newBook(a)}
	s.itself.Store, s.itself.scope, s.itself.what = s, itself, "watching this Node"
	s.others.Store, s.others.scope, s.others.what = s, others, "watching the Nodes"
	s.context, s.ended = context.WithCancel(context.Background())
	return s, nil
}

// begin starts the watches, once.
func (s *Store) begin() {
	s.start.Do(func() {
		s.running.Go(func() { s.follow(s.context) })
	})
}

// follow runs the watches until ctx ends. The watch of the others starts when the own
// Node was listed. While the own Node has no podCIDRs, that watch asks for whole
// Nodes; it restarts when there are some.
func (s *Store) follow(ctx context.Context) {
	if s.identify(ctx) != nil {
		return // only ctx ends it
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

// await waits until the book meets a condition.
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

// identify sets the name of this host's Node in the book.
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

// Close ends the watches and closes the connections. What is published stays.
func (s *Store) Close() error {
	s.ended()
	s.start.Do(func() {}) // prevents a later begin
	s.running.Wait()
	s.client.Close()
	return nil
}

// Status returns the state of the store. It has no time of renewal, because a Node's
// lease does not end.
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

// Reload does nothing: changed files are noticed without it.
func (s *Store) Reload() error { return nil }

// Node waits until this host's Node is known, and returns its name.
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
