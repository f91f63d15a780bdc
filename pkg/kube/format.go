package kube

import (
	"encoding/json"
	"fmt"
	"io"
)

// Format is how objects of a kind are asked for and decoded. A resourceVersion means
// the same in every format: a watch in one goes on from where one in another ended.
type Format[T any] struct {
	wire               wire
	kind, list         string // the kinds of one object, and of a list
	accept, acceptList string
	optional           bool // a server need not know it
	decode             func(object []byte, to *T) error
}

// Protobuf is the format of whole objects of a kind that is built into Kubernetes.
// Decode reads a message into an object that may hold an earlier one, and may keep
// parts of the message: both are overwritten together.
func Protobuf[T any](kind string, decode func(message []byte, to *T) error) Format[T] {
	return Format[T]{wire: protobufWire{}, kind: kind, list: kind + "List", accept: protobufType, acceptList: protobufType, decode: decode}
}

// metadataKind is the kind of an object's metadata alone.
const metadataKind = "PartialObjectMetadata"

// Metadata is the format of any objects' metadata alone, a small part of most. It
// looks to decode like a whole object without the rest. An API server need not know
// it.
func Metadata[T any](decode func(message []byte, to *T) error) Format[T] {
	as := func(kind string) string { return protobufType + ";as=" + kind + ";g=meta.k8s.io;v=v1" }
	return Format[T]{
		wire: protobufWire{}, kind: metadataKind, list: metadataKind + "List",
		accept: as(metadataKind), acceptList: as(metadataKind + "List"), optional: true, decode: decode,
	}
}

// JSON is the format of objects of any kind, and the only one of custom resources.
func JSON[T any](kind string) Format[T] {
	decode := func(object []byte, to *T) error {
		var none T
		*to = none // what an object leaves out is not what the one before said
		if err := json.Unmarshal(object, to); err != nil {
			return fmt.Errorf("%w: %w", ErrUnreadable, err)
		}
		return nil
	}
	return Format[T]{wire: jsonWire{}, kind: kind, list: kind + "List", accept: jsonType, acceptList: jsonType, decode: decode}
}

// Decode reads an object into to.
func (f Format[T]) Decode(object []byte, to *T) error { return f.decode(object, to) }

// wire is one of the forms in which an API server writes objects.
type wire interface {
	// open returns an object and its kind.
	open(message []byte) (kind string, object []byte, err error)
	// revision returns an object's resourceVersion.
	revision(object []byte) ([]byte, error)
	// endsList reports whether a bookmark is the one after a streamed list.
	endsList(bookmark []byte) (bool, error)
	// status reads an object of the kind Status.
	status(object []byte) (status, error)
	// list reads a list as it comes, and calls item with each object in it.
	list(body io.Reader, kind string, item func(object []byte) error) (listMeta, error)
	// events reads what a watch sends.
	events(body io.Reader) events
}

// listMeta is a list's resourceVersion, and where the next page begins if there is one.
type listMeta struct{ revision, more string }

// events are what a watch sends.
type events interface {
	// next returns an event's type and message, valid until the next one. It returns
	// io.EOF where a watch ends between two events.
	next() (what string, message []byte, err error)
}

// endOfList is the annotation of the bookmark after a streamed list.
const endOfList = "k8s.io/initial-events-end"
