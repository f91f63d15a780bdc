package apitest

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func (f *Server) get(w http.ResponseWriter, r *http.Request, name string) {
	if n := f.Node(name); n != nil {
		f.send(w, r, n)
		return
	}
	f.Fail(w, r, Refusal(http.StatusNotFound, "not found"))
}

// selected reports whether a request selects a Node of that name.
func selected(r *http.Request, name string) bool {
	selector := r.URL.Query().Get("fieldSelector")
	return selector == "" || selector == "metadata.name="+name
}

// Sorted returns the Nodes that a request selects, by name. Call it inside Do.
func (f *Server) Sorted(r *http.Request) []*corev1.Node {
	var all []*corev1.Node
	for _, n := range f.Nodes {
		if selected(r, n.Name) {
			all = append(all, n)
		}
	}
	slices.SortFunc(all, func(a, b *corev1.Node) int { return strings.Compare(a.Name, b.Name) })
	return all
}

func (f *Server) list(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
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
	f.sendList(w, r, meta, all[from:to])
}

func (f *Server) watch(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	initial := AsksForStream(r)
	f.mu.Lock()
	epoch, at := f.epoch, f.revision
	if from := query.Get("resourceVersion"); from != "" && !initial {
		at, _ = strconv.ParseInt(from, 10, 64)
	}
	gone, unable := at < f.oldest, initial && f.NoWatchList
	var begin []byte
	if initial {
		for _, n := range f.Sorted(r) {
			begin = append(begin, f.Event(r, "ADDED", n)...)
		}
		begin = append(begin, f.Event(r, "BOOKMARK", &corev1.Node{ObjectMeta: metav1.ObjectMeta{
			ResourceVersion: fmt.Sprint(f.revision), Annotations: map[string]string{"k8s.io/initial-events-end": "true"},
		}})...)
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
	_, _ = w.Write(begin)
	for {
		f.mu.Lock()
		changed, over := f.changed, f.epoch != epoch
		var news []byte
		for _, e := range f.log {
			if e.revision <= at {
				continue
			}
			at = e.revision
			if !selected(r, e.node.Name) {
				continue
			}
			text := f.Event(r, e.kind, e.node)
			if f.Garble != nil {
				text = f.Garble(text)
			}
			news = append(news, text...)
		}
		f.mu.Unlock()
		if over {
			return
		}
		_, _ = w.Write(news)
		_ = out.Flush()
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
	}
}
