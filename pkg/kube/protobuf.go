package kube

import (
	"bytes"

	"google.golang.org/protobuf/encoding/protowire"
)

// Objects are large, and we use few fields of a Node: not its images, most conditions
// and managed fields. So this file walks messages in place and skips the other fields. A
// general decoder would allocate 17 kB for each Node, again at every heartbeat.

// protobufWire is the encoding of the kinds that are built into Kubernetes.
type protobufWire struct{}

// magic begins every object, before its kind.
var magic = []byte("k8s\x00")

// walk calls to with each field of a message, as bytes or as a number.
func walk(message []byte, to func(field protowire.Number, value []byte, number uint64) error) error {
	for len(message) > 0 {
		field, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return ErrUnreadable
		}
		message = message[n:]
		var value []byte
		var number uint64
		switch kind {
		case protowire.BytesType:
			value, n = protowire.ConsumeBytes(message)
		case protowire.VarintType:
			number, n = protowire.ConsumeVarint(message)
		default:
			n = protowire.ConsumeFieldValue(field, kind, message)
		}
		if n < 0 {
			return ErrUnreadable
		}
		message = message[n:]
		if err := to(field, value, number); err != nil {
			return err
		}
	}
	return nil
}

// open implements wire.
func (protobufWire) open(message []byte) (kind string, object []byte, err error) {
	message, ok := bytes.CutPrefix(message, magic)
	if !ok {
		return "", nil, ErrUnreadable
	}
	err = walk(message, func(field protowire.Number, value []byte, _ uint64) error {
		switch field {
		case 1:
			var err error
			kind, err = kindOf(value)
			return err
		case 2:
			object = value
		}
		return nil
	})
	return kind, object, err
}

// kindOf returns the kind in a typeMeta.
func kindOf(typeMeta []byte) (kind string, err error) {
	err = walk(typeMeta, func(field protowire.Number, value []byte, _ uint64) error {
		if field == 2 {
			kind = string(value)
		}
		return nil
	})
	return kind, err
}

// The fields of an object's metadata that we use.
const (
	metaName        = 1
	metaUID         = 5
	metaRevision    = 6
	metaCreated     = 8
	metaDeleted     = 9
	metaLabels      = 11
	metaAnnotations = 12
)

// meta walks the metadata of an object.
func meta(object []byte, to func(field protowire.Number, value []byte, number uint64) error) error {
	return walk(object, func(field protowire.Number, value []byte, _ uint64) error {
		if field == 1 {
			return walk(value, to)
		}
		return nil
	})
}

// revision implements wire.
func (protobufWire) revision(object []byte) (revision []byte, err error) {
	err = meta(object, func(field protowire.Number, value []byte, _ uint64) error {
		if field == metaRevision {
			revision = value
		}
		return nil
	})
	return revision, err
}

// endsList implements wire.
func (protobufWire) endsList(bookmark []byte) (ends bool, err error) {
	err = meta(bookmark, func(field protowire.Number, value []byte, _ uint64) error {
		if field != metaAnnotations {
			return nil
		}
		key, value, err := pair(value)
		ends = ends || string(key) == endOfList && string(value) == "true"
		return err
	})
	return ends, err
}

// pair reads an entry of a map from string to string.
func pair(entry []byte) (key, value []byte, err error) {
	err = walk(entry, func(field protowire.Number, part []byte, _ uint64) error {
		switch field {
		case 1:
			key = part
		case 2:
			value = part
		}
		return nil
	})
	return key, value, err
}
