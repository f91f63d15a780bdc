package kube

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// Version is one state of one object. As the precondition of a write it makes the
// server refuse the write if the object is in another state; an empty field requires
// nothing.
type Version struct {
	UID             string `json:"uid,omitempty"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
}

// Merge is a merge patch of an object.
type Merge struct {
	// Kind is MergePatch unless set. A StrategicMergePatch costs a server less, but it
	// exists only for the kinds that are built into Kubernetes, and merges some lists.
	Kind PatchKind
	// If is the state that the patch requires.
	If Version
	// Metadata, Spec and Status are what changes; nil changes nothing. A null in the
	// JSON removes a field.
	Metadata     map[string]any
	Spec, Status any
}

// patch returns the patch as JSON.
func (m Merge) patch() ([]byte, error) {
	metadata := make(map[string]any, len(m.Metadata)+2)
	maps.Copy(metadata, m.Metadata)
	if m.If.UID != "" {
		metadata["uid"] = m.If.UID
	}
	if m.If.ResourceVersion != "" {
		metadata["resourceVersion"] = m.If.ResourceVersion
	}
	return json.Marshal(struct {
		Metadata map[string]any `json:"metadata,omitempty"`
		Spec     any            `json:"spec,omitempty"`
		Status   any            `json:"status,omitempty"`
	}{metadata, m.Spec, m.Status})
}

// acceptVersion accepts an object's metadata alone, and the whole object from a server
// that cannot leave out the rest.
const acceptVersion = protobufType + ";as=" + metadataKind + ";g=meta.k8s.io;v=v1," + jsonType + ";as=" + metadataKind + ";g=meta.k8s.io;v=v1," + protobufType + "," + jsonType

// Merge applies a merge patch to an object or its subresource, and returns the
// object's new state. A patch that changes nothing leaves the state as it is.
func (c *Client) Merge(ctx context.Context, path string, m Merge) (Version, error) {
	change, err := m.patch()
	if err != nil {
		return Version{}, unconnected{err}
	}
	r, err := c.do(ctx, request{
		method: http.MethodPatch, path: path, query: c.writer(), content: string(cmp.Or(m.Kind, MergePatch)), body: change, accept: acceptVersion,
	})
	if err != nil {
		return Version{}, err
	}
	w := wire(protobufWire{})
	if typeOf(r) == jsonType {
		w = jsonWire{}
	}
	text, err := readAll(r)
	if err != nil {
		return Version{}, err
	}
	_, object, err := w.open(text)
	if err != nil {
		return Version{}, err
	}
	v, err := w.version(object)
	if err == nil && v.ResourceVersion == "" {
		err = fmt.Errorf("%w: an object without a resourceVersion", ErrUnreadable)
	}
	return v, err
}

// Create creates an object of a resource, and reads its new state into object. The
// format must be JSON.
func Create[T any](ctx context.Context, c *Client, resource string, f Format[T], object *T) error {
	return write(ctx, c, http.MethodPost, resource, f, object)
}

// Update replaces an object, and reads its new state into object. The format must be
// JSON. The server refuses it unless the object has the uid and the resourceVersion of
// the one that it replaces.
func Update[T any](ctx context.Context, c *Client, path string, f Format[T], object *T) error {
	return write(ctx, c, http.MethodPut, path, f, object)
}

func write[T any](ctx context.Context, c *Client, method, path string, f Format[T], object *T) error {
	text, err := json.Marshal(object)
	if err != nil {
		return unconnected{err}
	}
	r, err := c.do(ctx, request{method: method, path: path, query: c.writer(), content: jsonType, body: text, accept: f.accept})
	if err != nil {
		return err
	}
	return f.read(r, object)
}

// Delete deletes an object that is in the state v.
func (c *Client) Delete(ctx context.Context, path string, v Version) error {
	options, err := json.Marshal(map[string]any{"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": v})
	if err != nil {
		return unconnected{err}
	}
	r, err := c.do(ctx, request{method: http.MethodDelete, path: path, content: jsonType, body: options, accept: jsonType})
	if err != nil {
		return err
	}
	return r.Body.Close()
}

// Outcome is how a write ended.
type Outcome int

const (
	// Applied is a write that the server confirmed.
	Applied Outcome = iota
	// Refused is a write that the server rejected, so it is not applied.
	Refused
	// Unsent is a write that no server received, so it is not applied.
	Unsent
	// Ambiguous is a write whose answer is missing, unreadable or a server error. It
	// may be applied, now or later.
	Ambiguous
)

func (o Outcome) String() string {
	return [...]string{"applied", "refused", "unsent", "ambiguous"}[o]
}

// OutcomeOf returns the outcome of a write that returned err.
func OutcomeOf(err error) Outcome {
	if err == nil {
		return Applied
	}
	if _, unsent := errors.AsType[unconnected](err); unsent {
		return Unsent
	}
	if code := Code(err); code >= 300 && code < 500 && code != http.StatusRequestTimeout {
		return Refused
	}
	return Ambiguous
}

// Moved reports whether a write was refused because the object is not in the state
// that the write requires: it was changed, deleted or re-created.
func Moved(err error) bool {
	refused, ok := errors.AsType[*Error](err)
	if !ok {
		return false
	}
	switch refused.Code {
	case http.StatusNotFound, http.StatusConflict:
		return true
	case http.StatusUnprocessableEntity:
		return strings.Contains(refused.Message, "metadata.uid")
	}
	return false
}

// version implements wire.
func (protobufWire) version(object []byte) (v Version, err error) {
	err = meta(object, func(field protowire.Number, value []byte, _ uint64) error {
		switch field {
		case metaUID:
			v.UID = string(value)
		case metaRevision:
			v.ResourceVersion = string(value)
		}
		return nil
	})
	return v, err
}

// version implements wire.
func (jsonWire) version(object []byte) (Version, error) {
	m, err := readMeta(object)
	return m.Metadata.Version, err
}
