package apitest

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func (f *Server) get(w http.ResponseWriter, r *http.Request, t target) {
	f.mu.Lock()
	o := f.at(t)
	f.mu.Unlock()
	if o == nil {
		f.Fail(w, r, absent(t))
		return
	}
	f.send(w, r, t, http.StatusOK, o)
}

// absent refuses a request for an object that does not exist.
func absent(t target) *metav1.Status { return status(apierrors.NewNotFound(t.group(), t.name)) }

func status(err *apierrors.StatusError) *metav1.Status {
	s := err.Status()
	s.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	return &s
}

// Sorted returns the objects that a request selects, by name. Call it inside Do.
func (f *Server) Sorted(r *http.Request) []Object {
	t := targetOf(r)
	var all []Object
	if t.resource == nodes {
		for _, n := range f.Nodes {
			all = append(all, n)
		}
	}
	for _, o := range f.objects[t.resource] {
		all = append(all, o)
	}
	all = slices.DeleteFunc(all, func(o Object) bool { return !t.selects(r, o) })
	slices.SortFunc(all, func(a, b Object) int { return strings.Compare(key(a), key(b)) })
	return all
}

func (f *Server) list(w http.ResponseWriter, r *http.Request, t target) {
	query := r.URL.Query()
	if s := f.tooNew(query.Get("resourceVersion"), query.Get("resourceVersionMatch")); s != nil {
		f.Fail(w, r, s)
		return
	}
	f.mu.Lock()
	all := f.Sorted(r)
	meta := metav1.ListMeta{ResourceVersion: fmt.Sprint(f.revision)}
	cut := f.CutPages
	f.mu.Unlock()
	from, _ := strconv.Atoi(query.Get("continue"))
	if from > 0 && cut {
		f.Fail(w, r, Refusal(http.StatusGone, "the provided continue parameter is too old"))
		return
	}
	to := len(all)
	if limit, _ := strconv.Atoi(query.Get("limit")); limit > 0 && from+limit < to {
		to = from + limit
		meta.Continue = fmt.Sprint(to)
	}
	f.sendList(w, r, t, meta, all[from:to])
}

// bookmark returns the object of a bookmark at a revision, which ends a list.
func (t target) bookmark(revision int64) Object {
	var o Object = new(corev1.Node)
	if t.resource != nodes {
		o = &unstructured.Unstructured{Object: map[string]any{"kind": t.kind, "apiVersion": t.version()}}
	}
	o.SetResourceVersion(fmt.Sprint(revision))
	o.SetAnnotations(map[string]string{"k8s.io/initial-events-end": "true"})
	return o
}

func (f *Server) watch(w http.ResponseWriter, r *http.Request, t target) {
	query := r.URL.Query()
	initial, self := AsksForStream(r), &watching{asked: asked(r)}
	defer func() {
		f.mu.Lock()
		delete(f.watches, self)
		f.mu.Unlock()
	}()
	f.mu.Lock()
	f.watches[self] = struct{}{}
	epoch, at := f.epoch, f.revision
	if from := query.Get("resourceVersion"); from != "" && !initial {
		at, _ = strconv.ParseInt(from, 10, 64)
	}
	gone, unable, revision := at < f.oldest, initial && f.NoWatchList, f.revision
	var all []Object
	if initial {
		all = f.Sorted(r)
	}
	f.mu.Unlock()
	if unable {
		f.Fail(w, r, Refusal(http.StatusUnprocessableEntity, "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"))
		return
	}
	out := Begin(w, r)
	if gone {
		_, _ = w.Write(f.Failure(r, Refusal(http.StatusGone, "too old resource version")))
		return
	}
	for _, o := range all {
		_, _ = w.Write(f.Event(r, "ADDED", o))
	}
	if initial {
		_, _ = w.Write(f.Event(r, "BOOKMARK", t.bookmark(revision)))
	}
	for {
		f.mu.Lock()
		changed, over, garble := f.changed, self.over || f.epoch != epoch, f.Garble
		news := f.since(at)
		f.mu.Unlock()
		if over {
			return
		}
		for _, e := range news {
			at = e.revision
			if e.resource != t.resource || !t.selects(r, e.object) {
				continue
			}
			text := f.Event(r, e.kind, e.object)
			if garble != nil {
				text = garble(text)
			}
			_, _ = w.Write(text)
		}
		_ = out.Flush()
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
	}
}

// since returns the changes after a revision. The caller holds mu.
func (f *Server) since(revision int64) []event {
	n, _ := slices.BinarySearchFunc(f.log, revision+1, func(e event, r int64) int { return int(e.revision - r) })
	return f.log[n:len(f.log):len(f.log)]
}
