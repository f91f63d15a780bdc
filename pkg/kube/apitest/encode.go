package apitest

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

const (
	asProtobuf   = "application/vnd.kubernetes.protobuf"
	asJSON       = "application/json"
	asMergePatch = "application/merge-patch+json"
	metadata     = "PartialObjectMetadata"
)

func typed(w http.ResponseWriter, kind string) http.ResponseWriter {
	w.Header().Set("Content-Type", kind)
	return w
}

// wantsJSON reports whether a request asks for JSON.
func wantsJSON(r *http.Request) bool { return strings.HasPrefix(r.Header.Get("Accept"), asJSON) }

// wantsMetadata reports whether a request asks for metadata alone.
func wantsMetadata(r *http.Request) bool {
	accept := r.Header.Get("Accept")
	return strings.Contains(accept, ";as="+metadata+";") || strings.Contains(accept, ";as="+metadata+"List;")
}

// Refusal returns the Status object of a refusal.
func Refusal(code int32, message string) *metav1.Status {
	return &metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Code: code, Message: message}
}

// Fail refuses a request.
func (f *Server) Fail(w http.ResponseWriter, r *http.Request, s *metav1.Status) {
	if s.Details != nil && s.Details.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", fmt.Sprint(s.Details.RetryAfterSeconds))
	}
	// Like the real server, refuse a request for metadata alone in JSON.
	if accept := r.Header.Get("Accept"); strings.HasPrefix(accept, asProtobuf) && !strings.Contains(accept, ";as=") {
		typed(w, asProtobuf).WriteHeader(int(s.Code))
		_, _ = w.Write(Wrap(f.t, "Status", s))
		return
	}
	typed(w, asJSON).WriteHeader(int(s.Code))
	_ = json.NewEncoder(w).Encode(s)
}

// Marshaler is an object of one of Kubernetes' own types.
type Marshaler interface{ Marshal() ([]byte, error) }

// Encoded returns an object's protobuf.
func Encoded(t testing.TB, m Marshaler) []byte {
	t.Helper()
	text, err := m.Marshal()
	if err != nil {
		t.Error(err)
	}
	return text
}

// Wrap returns an object as an API server sends it in protobuf.
func Wrap(t testing.TB, kind string, object Marshaler) []byte {
	u := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: kind}, Raw: Encoded(t, object)}
	return append([]byte("k8s\x00"), Encoded(t, &u)...)
}

// Frame returns an event as a watch sends it in protobuf.
func Frame(t testing.TB, kind, what string, object Marshaler) []byte {
	text := Encoded(t, &metav1.WatchEvent{Type: kind, Object: runtime.RawExtension{Raw: Wrap(t, what, object)}})
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...)
}

// Event returns an event of a Node, in the format that a request asks for.
func (f *Server) Event(r *http.Request, kind string, n *corev1.Node) []byte {
	switch {
	case wantsJSON(r):
		return f.json(map[string]any{"type": kind, "object": whole(n)})
	case wantsMetadata(r):
		return Frame(f.t, kind, metadata, &metav1.PartialObjectMetadata{ObjectMeta: n.ObjectMeta})
	}
	return Frame(f.t, kind, "Node", n)
}

// Failure returns the event that ends a watch with an error, in the format that a
// request asks for.
func (f *Server) Failure(r *http.Request, s *metav1.Status) []byte {
	if wantsJSON(r) {
		return f.json(map[string]any{"type": "ERROR", "object": s})
	}
	return Frame(f.t, "ERROR", "Status", s)
}

// Begin sends the headers of a watch.
func Begin(w http.ResponseWriter, r *http.Request) *http.ResponseController {
	kind := asProtobuf + ";stream=watch"
	if wantsJSON(r) {
		kind = asJSON
	}
	typed(w, kind).WriteHeader(http.StatusOK)
	out := http.NewResponseController(w)
	_ = out.Flush()
	return out
}

// whole returns a Node with its kind set.
func whole(n *corev1.Node) *corev1.Node {
	n = n.DeepCopy()
	n.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}
	return n
}

func (f *Server) json(object any) []byte {
	text, err := json.Marshal(object)
	if err != nil {
		f.t.Error(err)
	}
	return append(text, '\n')
}

// send answers with a Node.
func (f *Server) send(w http.ResponseWriter, r *http.Request, n *corev1.Node) {
	if r.Header.Get("Accept") == asProtobuf {
		_, _ = typed(w, asProtobuf).Write(Wrap(f.t, "Node", n))
		return
	}
	_, _ = typed(w, asJSON).Write(f.json(whole(n)))
}

// sendList answers with a list of Nodes, in the format that a request asks for.
func (f *Server) sendList(w http.ResponseWriter, r *http.Request, meta metav1.ListMeta, nodes []*corev1.Node) {
	if wantsMetadata(r) {
		list := &metav1.PartialObjectMetadataList{ListMeta: meta}
		for _, n := range nodes {
			list.Items = append(list.Items, metav1.PartialObjectMetadata{ObjectMeta: n.ObjectMeta})
		}
		_, _ = typed(w, asProtobuf).Write(Wrap(f.t, metadata+"List", list))
		return
	}
	list := &corev1.NodeList{ListMeta: meta}
	for _, n := range nodes {
		list.Items = append(list.Items, *n)
	}
	if !wantsJSON(r) {
		_, _ = typed(w, asProtobuf).Write(Wrap(f.t, "NodeList", list))
		return
	}
	// Like a custom resource's list, with the kind after the items.
	text := f.json(map[string]any{"apiVersion": "v1", "items": list.Items, "kind": "NodeList", "metadata": meta})
	_, _ = typed(w, asJSON).Write(text)
}
