package kube

import (
	"encoding/json"
	"fmt"
	"io"
)

// Format is how objects of a kind are requested and decoded. A resourceVersion means
// the same in every format, so a watch can resume in another one.
type Format[T any] struct {
	wire               wire
	kind, list         string // the kinds of one object, and of a list
	accept, acceptList string
	optional           bool // a server may not know it
	decode             func(object []byte, to *T) error
}

// Protobuf returns the format of whole objects of a kind that is built into
// Kubernetes. decode reads a message into an object, which may hold an earlier one.
// It may keep slices of the message: both are overwritten together.
func Protobuf[T any](kind string, decode func(message []byte, to *T) error) Format[T] {
	return Format[T]{wire: protobufWire{}, kind: kind, list: kind + "List", accept: protobufType, acceptList: protobufType, decode: decode}
}

// metadataKind is the kind of an object's metadata alone.
const metadataKind = "PartialObjectMetadata"

// Metadata returns the format of objects' metadata alone, a small part of most objects.
// decode gets the message of a whole object in which all other fields are missing. An
// API server may not know this format.
func Metadata[T any](decode func(message []byte, to *T) error) Format[T] {
	as := func(kind string) string { return protobufType + ";as=" + kind + ";g=meta.k8s.io;v=v1" }
	return Format[T]{
		wire: protobufWire{}, kind: metadataKind, list: metadataKind + "List",
		accept: as(metadataKind), acceptList: as(metadataKind + "List"), optional: true, decode: decode,
	}
}

// JSON returns the JSON format of a kind. It is the only format of custom resources.
func JSON[T any](kind string) Format[T] {
	decode := func(object []byte, to *T) error {
		var none T
		*to = none // an absent field must not keep the previous object's value
		if err := json.Unmarshal(object, to); err != nil {
			return fmt.Errorf("%w: %w", ErrUnreadable, err)
		}
		return nil
	}
	return Format[T]{wire: jsonWire{}, kind: kind, list: kind + "List", accept: jsonType, acceptList: jsonType, decode: decode}
}

// Kind returns the kind of the objects as they come.
func (f Format[T]) Kind() string { return f.kind }

// Decode reads an object into to.
func (f Format[T]) Decode(object []byte, to *T) error { return f.decode(object, to) }

// wire is one of the encodings in which an API server sends objects.
type wire interface {
	// open returns an object and its kind.
	open(message []byte) (kind string, object []byte, err error)
	// revision returns an object's resourceVersion.
	revision(object []byte) ([]byte, error)
	// version returns an object's uid and resourceVersion.
	version(object []byte) (Version, error)
	// endsList reports whether a bookmark ends a streamed list.
	endsList(bookmark []byte) (bool, error)
	// status reads an object of the kind Status.
	status(object []byte) (status, error)
	// list reads a list as it arrives, and calls item with each object.
	list(body io.Reader, kind string, item func(object []byte) error) (listMeta, error)
	// events returns the events of a watch.
	events(body io.Reader) events
}

// listMeta is a list's resourceVersion, and the token of the next page if there is
// one.
type listMeta struct{ revision, more string }

// events are the events of a watch.
type events interface {
	// next returns an event's type and message, valid until the next call. It returns
	// io.EOF if the watch ends between two events.
	next() (what string, message []byte, err error)
}

// endOfList is the annotation of the bookmark that ends a streamed list.
const endOfList = "k8s.io/initial-events-end"
