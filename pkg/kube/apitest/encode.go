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
	asProtobuf       = "application/vnd.kubernetes.protobuf"
	asJSON           = "application/json"
	asMergePatch     = "application/merge-patch+json"
	asStrategicPatch = "application/strategic-merge-patch+json"
	metadata         = "PartialObjectMetadata"
)

func typed(w http.ResponseWriter, kind string) http.ResponseWriter {
	w.Header().Set("Content-Type", kind)
	return w
}

// form is how a request asks for objects.
type form struct{ json, metadataOnly bool }

// formOf returns the first form of a request's that the server has: it has whole
// objects other than Nodes as JSON only.
func formOf(r *http.Request, resource string) (f form, ok bool) {
	for accepted := range strings.SplitSeq(r.Header.Get("Accept"), ",") {
		kind, how, _ := strings.Cut(accepted, ";")
		f = form{json: kind == asJSON, metadataOnly: strings.Contains(how, "as="+metadata)}
		if f.json || kind == asProtobuf && (f.metadataOnly || resource == nodes) {
			return f, true
		}
	}
	return form{json: true}, r.Header.Get("Accept") == ""
}

// wantsMetadata reports whether a request reads metadata alone.
func wantsMetadata(r *http.Request) bool {
	return r.Method == http.MethodGet && strings.Contains(r.Header.Get("Accept"), metadata)
}

// Refusal returns the Status object of a refusal.
func Refusal(code int32, message string) *metav1.Status {
	return &metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Code: code, Reason: reasons[code], Message: message,
	}
}

var reasons = map[int32]metav1.StatusReason{
	http.StatusUnauthorized: metav1.StatusReasonUnauthorized, http.StatusForbidden: metav1.StatusReasonForbidden,
	http.StatusNotFound: metav1.StatusReasonNotFound, http.StatusNotAcceptable: metav1.StatusReasonNotAcceptable,
	http.StatusConflict: metav1.StatusReasonConflict, http.StatusGone: metav1.StatusReasonExpired,
	http.StatusUnprocessableEntity: metav1.StatusReasonInvalid, http.StatusTooManyRequests: metav1.StatusReasonTooManyRequests,
	http.StatusInternalServerError: metav1.StatusReasonInternalError, http.StatusGatewayTimeout: metav1.StatusReasonTimeout,
	http.StatusServiceUnavailable: metav1.StatusReasonServiceUnavailable,
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

// Event returns an event of an object, in the form that a request asks for.
func (f *Server) Event(r *http.Request, kind string, o Object) []byte {
	t := targetOf(r)
	switch as, _ := formOf(r, t.resource); {
	case as.json:
		return f.json(map[string]any{"type": kind, "object": t.document(o)})
	case as.metadataOnly:
		return Frame(f.t, kind, metadata, f.partial(o))
	}
	return Frame(f.t, kind, t.kind, o.(Marshaler))
}

// partial returns an object's metadata as an object.
func (f *Server) partial(o Object) *metav1.PartialObjectMetadata {
	m, err := metadataOf(o)
	if err != nil {
		f.t.Error(err)
	}
	return &metav1.PartialObjectMetadata{ObjectMeta: m}
}

// Failure returns the event that ends a watch with an error, in the form that a
// request asks for.
func (f *Server) Failure(r *http.Request, s *metav1.Status) []byte {
	if as, _ := formOf(r, targetOf(r).resource); as.json {
		return f.json(map[string]any{"type": "ERROR", "object": s})
	}
	return Frame(f.t, "ERROR", "Status", s)
}

// Begin sends the headers of a watch.
func Begin(w http.ResponseWriter, r *http.Request) *http.ResponseController {
	kind := asProtobuf + ";stream=watch"
	if strings.HasPrefix(r.Header.Get("Accept"), asJSON) {
		kind = asJSON
	}
	typed(w, kind).WriteHeader(http.StatusOK)
	out := http.NewResponseController(w)
	_ = out.Flush()
	return out
}

func (f *Server) json(object any) []byte {
	text, err := json.Marshal(object)
	if err != nil {
		f.t.Error(err)
	}
	return append(text, '\n')
}

// send answers with an object, in the form that a request asks for.
func (f *Server) send(w http.ResponseWriter, r *http.Request, t target, code int, o Object) {
	as, _ := formOf(r, t.resource)
	var text []byte
	switch {
	case as.json && as.metadataOnly:
		p := f.partial(o)
		p.TypeMeta = metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: metadata}
		text = f.json(p)
	case as.json:
		text = f.json(t.document(o))
	case as.metadataOnly:
		text = Wrap(f.t, metadata, f.partial(o))
	default:
		text = Wrap(f.t, t.kind, o.(Marshaler))
	}
	kind := asProtobuf
	if as.json {
		kind = asJSON
	}
	typed(w, kind).WriteHeader(code)
	_, _ = w.Write(text)
}

// sendList answers with a list, in the form that a request asks for.
func (f *Server) sendList(w http.ResponseWriter, r *http.Request, t target, meta metav1.ListMeta, all []Object) {
	as, _ := formOf(r, t.resource)
	switch {
	case as.json:
		items := make([]any, 0, len(all))
		for _, o := range all {
			items = append(items, t.document(o))
		}
		// Like a custom resource's list, with the kind after the items.
		_, _ = typed(w, asJSON).Write(f.json(map[string]any{"apiVersion": t.version(), "items": items, "kind": t.kind + "List", "metadata": meta}))
	case as.metadataOnly:
		list := &metav1.PartialObjectMetadataList{ListMeta: meta}
		for _, o := range all {
			list.Items = append(list.Items, *f.partial(o))
		}
		_, _ = typed(w, asProtobuf).Write(Wrap(f.t, metadata+"List", list))
	default:
		list := &corev1.NodeList{ListMeta: meta}
		for _, o := range all {
			list.Items = append(list.Items, *o.(*corev1.Node))
		}
		_, _ = typed(w, asProtobuf).Write(Wrap(f.t, "NodeList", list))
	}
}
