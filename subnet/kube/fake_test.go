package kube

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// fake is an API server of Nodes alone, which fails in each way that it is told
// to. It encodes with Kubernetes' own types.
type fake struct {
	t      testing.TB
	server *httptest.Server

	mu       sync.Mutex
	changed  chan struct{} // closed, and replaced, at every change
	nodes    map[string]*corev1.Node
	log      []event
	revision int64
	oldest   int64 // that a watch may go on from
	epoch    int   // a watch ends with its epoch
	requests []string
	gives    func(i int) []string // podCIDRs of new Nodes
	made     int

	// Faults.

	noWatchList bool
	answer      func(w http.ResponseWriter, r *http.Request) bool // reports whether it answered
	noLean      func(w http.ResponseWriter, r *http.Request) bool // true where it has answered
	refuse      func(r *http.Request) *metav1.Status              // nil where it is answered
	garble      func(event []byte) []byte
	mute        bool // what is asked for is begun, and no more
	cutPages    bool
}

type event struct {
	kind     string
	node     *corev1.Node
	revision int64
}

func newFake(t testing.TB) *fake {
	f := &fake{t: t, changed: make(chan struct{}), nodes: make(map[string]*corev1.Node), revision: 100}
	f.gives = func(i int) []string { return []string{fmt.Sprintf("10.5.0.%d/28", i*16%256)} }
	f.server = httptest.NewServer(http.HandlerFunc(f.serve))
	t.Cleanup(func() {
		f.cut()
		f.server.CloseClientConnections()
		f.server.Close()
	})
	return f
}

func (f *fake) url() string { return f.server.URL }
func (f *fake) client() *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
}

// do does something to the server, which those who wait hear of.
func (f *fake) do(what func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	what()
	close(f.changed)
	f.changed = make(chan struct{})
}

// cut ends all watches.
func (f *fake) cut() { f.do(func() { f.epoch++ }) }

// compact has the server forget all history.
func (f *fake) compact() { f.do(func() { f.oldest = f.revision + 1; f.log = nil; f.revision++ }) }

// asked counts the requests that begin so.
func (f *fake) asked(prefix string) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.requests {
		if strings.HasPrefix(r, prefix) {
			n++
		}
	}
	return n
}

// change writes a Node; the caller holds mu.
func (f *fake) change(kind string, n *corev1.Node) {
	f.revision++
	n = n.DeepCopy()
	n.ResourceVersion = strconv.FormatInt(f.revision, 10)
	if kind == "DELETED" {
		delete(f.nodes, n.Name)
	} else {
		f.nodes[n.Name] = n
	}
	f.log = append(f.log, event{kind, n, f.revision})
}

func (f *fake) serve(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	asked := r.Method + " " + r.URL.String()
	if strings.Contains(r.Header.Get("Accept"), metadata) {
		asked = "lean " + asked
	}
	f.requests = append(f.requests, asked)
	refuse, answer := f.refuse, f.answer
	f.mu.Unlock()
	if answer != nil && answer(w, r) {
		return
	}
	if refuse != nil {
		if s := refuse(r); s != nil {
			f.fail(w, r, s)
			return
		}
	}
	parts := strings.Split(strings.TrimPrefix(r.URL.Path, "/api/v1/"), "/")
	name := ""
	if len(parts) > 1 {
		name = parts[1]
	}
	switch {
	case parts[0] == "namespaces":
		fmt.Fprint(typed(w, asJSON), `{"kind":"Pod","spec":{"nodeName":"node-1"}}`)
	case r.Method == http.MethodPost:
		f.create(w, r)
	case r.Method == http.MethodPatch:
		f.patch(w, r, name)
	case r.Method == http.MethodDelete:
		f.remove(w, r, name)
	case f.noLean != nil && strings.Contains(r.Header.Get("Accept"), metadata) && f.noLean(w, r):
	case r.URL.Query().Get("watch") != "":
		f.watch(w, r)
	case name != "":
		f.get(w, r, name)
	default:
		f.list(w, r)
	}
}

func typed(w http.ResponseWriter, kind string) http.ResponseWriter {
	w.Header().Set("Content-Type", kind)
	return w
}

func (f *fake) fail(w http.ResponseWriter, r *http.Request, s *metav1.Status) {
	if s.Details != nil && s.Details.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", fmt.Sprint(s.Details.RetryAfterSeconds))
	}
	// As the real one, which finds no other way to refuse who wants metadata alone.
	if accept := r.Header.Get("Accept"); strings.HasPrefix(accept, protobuf) && !strings.Contains(accept, ";as=") {
		typed(w, protobuf).WriteHeader(int(s.Code))
		_, _ = w.Write(wrap(f.t, "Status", s))
		return
	}
	typed(w, asJSON).WriteHeader(int(s.Code))
	_ = json.NewEncoder(w).Encode(s)
}

func refusalOf(code int32, message string) *metav1.Status {
	return &metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Code: code, Message: message}
}

type marshaler interface{ Marshal() ([]byte, error) }

// wrap is an object as an API server sends it.
func wrap(t testing.TB, kind string, object marshaler) []byte {
	raw, err := object.Marshal()
	if err != nil {
		t.Error(err)
	}
	u := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: kind}, Raw: raw}
	text, err := u.Marshal()
	if err != nil {
		t.Error(err)
	}
	return append([]byte("k8s\x00"), text...)
}

// frame is an event as a watch has it.
func frame(t testing.TB, kind, what string, object marshaler) []byte {
	e := metav1.WatchEvent{Type: kind, Object: runtime.RawExtension{Raw: wrap(t, what, object)}}
	text, err := e.Marshal()
	if err != nil {
		t.Error(err)
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...)
}

func (f *fake) create(w http.ResponseWriter, r *http.Request) {
	n := new(corev1.Node)
	if err := json.NewDecoder(r.Body).Decode(n); err != nil {
		f.t.Error(err)
	}
	exists := false
	f.do(func() {
		if exists = f.nodes[n.Name] != nil; exists {
			return
		}
		if len(n.Spec.PodCIDRs) == 0 && f.gives != nil {
			n.Spec.PodCIDRs = f.gives(f.made)
			f.made++
		}
		if len(n.Spec.PodCIDRs) > 0 {
			n.Spec.PodCIDR = n.Spec.PodCIDRs[0]
		}
		n.UID = types.UID(fmt.Sprintf("uid-%d", f.revision))
		n.CreationTimestamp = metav1.NewTime(time.Unix(1_700_000_000+f.revision, 0))
		f.change("ADDED", n)
	})
	if exists {
		f.fail(w, r, refusalOf(http.StatusConflict, "already exists"))
		return
	}
	typed(w, asJSON).WriteHeader(http.StatusCreated)
}

func (f *fake) remove(w http.ResponseWriter, r *http.Request, name string) {
	f.do(func() {
		if n := f.nodes[name]; n != nil {
			f.change("DELETED", n)
		}
	})
	fmt.Fprint(typed(w, asJSON), "{}")
}

func (f *fake) patch(w http.ResponseWriter, r *http.Request, name string) {
	var p struct {
		Metadata struct {
			UID         types.UID
			Annotations map[string]*string
		}
		Spec struct{ PodCIDRs []string }
	}
	if err := json.NewDecoder(r.Body).Decode(&p); err != nil || r.Header.Get("Content-Type") != patching {
		f.t.Errorf("a patch of %q: %v", r.Header.Get("Content-Type"), err)
	}
	var failure *metav1.Status
	var answer []byte
	f.do(func() {
		n := f.nodes[name]
		switch {
		case n == nil:
			failure = refusalOf(http.StatusNotFound, "not found")
			return
		case p.Metadata.UID != "" && p.Metadata.UID != n.UID:
			failure = refusalOf(http.StatusUnprocessableEntity, "metadata.uid: Invalid value: field is immutable")
			return
		}
		n = n.DeepCopy()
		if n.Annotations == nil {
			n.Annotations = make(map[string]string)
		}
		for key, value := range p.Metadata.Annotations {
			if value == nil {
				delete(n.Annotations, key)
			} else {
				n.Annotations[key] = *value
			}
		}
		if len(p.Spec.PodCIDRs) > 0 {
			n.Spec.PodCIDRs, n.Spec.PodCIDR = p.Spec.PodCIDRs, p.Spec.PodCIDRs[0]
		}
		f.change("MODIFIED", n)
		answer = wrap(f.t, "Node", f.nodes[name])
	})
	switch {
	case failure != nil:
		f.fail(w, r, failure)
	case r.Header.Get("Accept") == protobuf:
		_, _ = typed(w, protobuf).Write(answer)
	default:
		fmt.Fprint(typed(w, asJSON), "{}")
	}
}

func (f *fake) get(w http.ResponseWriter, r *http.Request, name string) {
	f.mu.Lock()
	n := f.nodes[name]
	f.mu.Unlock()
	switch {
	case n == nil:
		f.fail(w, r, refusalOf(http.StatusNotFound, "not found"))
	case r.Header.Get("Accept") == protobuf:
		_, _ = typed(w, protobuf).Write(wrap(f.t, "Node", n))
	default:
		_ = json.NewEncoder(typed(w, asJSON)).Encode(n)
	}
}

// selected says whether a request asks for a Node of that name.
func selected(r *http.Request, name string) bool {
	selector := r.URL.Query().Get("fieldSelector")
	return selector == "" || selector == "metadata.name="+name
}

// formed is a Node in the form that a request asks for.
func formed(r *http.Request, n *corev1.Node) (kind string, object marshaler) {
	if !strings.Contains(r.Header.Get("Accept"), ";as="+metadata+";") {
		return "Node", n
	}
	return metadata, &metav1.PartialObjectMetadata{ObjectMeta: n.ObjectMeta}
}

// sorted are all Nodes that are asked for; the caller holds mu.
func (f *fake) sorted(r *http.Request) []*corev1.Node {
	var all []*corev1.Node
	for _, n := range f.nodes {
		if selected(r, n.Name) {
			all = append(all, n)
		}
	}
	slices.SortFunc(all, func(a, b *corev1.Node) int { return strings.Compare(a.Name, b.Name) })
	return all
}

func (f *fake) list(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	f.mu.Lock()
	all := f.sorted(r)
	list := &corev1.NodeList{ListMeta: metav1.ListMeta{ResourceVersion: fmt.Sprint(f.revision)}}
	cut := f.cutPages
	f.mu.Unlock()
	from, _ := strconv.Atoi(query.Get("continue"))
	if from > 0 && cut {
		f.fail(w, r, refusalOf(http.StatusGone, "the provided continue parameter is too old"))
		return
	}
	to := len(all)
	if limit, _ := strconv.Atoi(query.Get("limit")); limit > 0 && from+limit < to {
		to = from + limit
		list.Continue = fmt.Sprint(to)
	}
	if strings.Contains(r.Header.Get("Accept"), ";as="+metadata+"List;") {
		lean := &metav1.PartialObjectMetadataList{ListMeta: list.ListMeta}
		for _, n := range all[from:to] {
			lean.Items = append(lean.Items, metav1.PartialObjectMetadata{ObjectMeta: n.ObjectMeta})
		}
		_, _ = typed(w, protobuf).Write(wrap(f.t, metadata+"List", lean))
		return
	}
	for _, n := range all[from:to] {
		list.Items = append(list.Items, *n)
	}
	_, _ = typed(w, protobuf).Write(wrap(f.t, "NodeList", list))
}

func (f *fake) watch(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	initial := query.Get("sendInitialEvents") == "true"
	f.mu.Lock()
	epoch, at := f.epoch, f.revision
	if from := query.Get("resourceVersion"); from != "" && !initial {
		at, _ = strconv.ParseInt(from, 10, 64)
	}
	gone, unable, mute := at < f.oldest, initial && f.noWatchList, f.mute
	var begin []byte
	if initial {
		for _, n := range f.sorted(r) {
			kind, object := formed(r, n)
			begin = append(begin, frame(f.t, "ADDED", kind, object)...)
		}
		end := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Name: "end", ResourceVersion: fmt.Sprint(f.revision), Annotations: map[string]string{"k8s.io/initial-events-end": "true"},
		}}
		end.Name = "" // as it is
		kind, object := formed(r, end)
		begin = append(begin, frame(f.t, "BOOKMARK", kind, object)...)
	}
	f.mu.Unlock()
	if unable {
		f.fail(w, r, refusalOf(http.StatusUnprocessableEntity, "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"))
		return
	}
	out := http.NewResponseController(w)
	typed(w, protobuf+";stream=watch").WriteHeader(http.StatusOK)
	_ = out.Flush()
	if gone {
		_, _ = w.Write(frame(f.t, "ERROR", "Status", refusalOf(http.StatusGone, "too old resource version")))
		return
	}
	if !mute {
		_, _ = w.Write(begin)
		_ = out.Flush()
	}
	for {
		f.mu.Lock()
		changed, over := f.changed, f.epoch != epoch
		var news []byte
		for _, e := range f.log {
			if e.revision > at && !f.mute {
				at = e.revision
				if !selected(r, e.node.Name) {
					continue
				}
				kind, object := formed(r, e.node)
				text := frame(f.t, e.kind, kind, object)
				if f.garble != nil {
					text = f.garble(text)
				}
				news = append(news, text...)
			}
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

// ip is for tests that write many.
func ip(text string) netip.Addr { return netip.MustParseAddr(text) }
