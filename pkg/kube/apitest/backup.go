package apitest

import (
	"maps"
	"net/http"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Backup returns a function that restores all objects as they are now, and ends all watches.
// After a restore, as in etcd, the server gives the later revisions again.
func (f *Server) Backup() (restore func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	revision, held, all := f.revision, maps.Clone(f.Nodes), maps.Clone(f.objects)
	for resource, objects := range all {
		all[resource] = maps.Clone(objects)
	}
	return func() {
		f.Do(func() {
			f.revision, f.oldest, f.log, f.Nodes, f.objects = revision, revision, nil, held, all
			f.End()
		})
	}
}

// tooNew refuses a list that must be as new as a revision that the server has not reached.
func (f *Server) tooNew(revision, match string) *metav1.Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	if at, _ := strconv.ParseInt(revision, 10, 64); match != "NotOlderThan" || at <= f.revision {
		return nil
	}
	s := Refusal(http.StatusGatewayTimeout, "Too large resource version")
	s.Details = &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge}}}
	return s
}
