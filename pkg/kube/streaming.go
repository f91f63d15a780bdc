package kube

import (
	"sync"
	"time"

	"k8s.io/klog/v2"
)

const (
	// streamSilence is how long a streamed list may make no progress. A loaded server
	// queues a request for up to 15 s before it answers 429, which is no reason to
	// fall back.
	streamSilence = 20 * time.Second
	// streamRetry is how long lists come in pages after a streamed list failed. By
	// then the server may be upgraded.
	streamRetry = 6 * time.Hour
)

// streaming remembers the resources whose lists the API server does not stream. A
// server without WatchList refuses, in its own words. So does one whose store cannot
// report progress. A proxy may drop the stream.
type streaming struct {
	mu     sync.Mutex
	failed map[string]time.Time // by path: when a streamed list failed and a list in pages succeeded
	logged map[string]bool
}

// usable reports whether to request a streamed list.
func (s *streaming) usable(path string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, failed := s.failed[path]
	return !failed || time.Since(at) > streamRetry
}

// fellBack records that a list in pages succeeded where a streamed one had failed.
func (s *streaming) fellBack(path string, reason error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed == nil {
		s.failed, s.logged = make(map[string]time.Time), make(map[string]bool)
	}
	s.failed[path] = time.Now()
	if !s.logged[path] {
		s.logged[path] = true
		klog.InfoS("Fell back to lists in pages; the API server does not stream them", "path", path, "reason", reason)
	}
}

// worked records that a streamed list succeeded.
func (s *streaming) worked(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.failed, path)
	delete(s.logged, path)
}

// reset forgets all failures, because the server may be another.
func (s *streaming) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.failed)
	clear(s.logged)
}
