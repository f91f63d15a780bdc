package kube

import (
	"encoding/json"
	"fmt"
	"io"
)

// jsonWire is the encoding of every kind, and the only one of custom resources.
type jsonWire struct{}

// objectMeta is the part of an object that a Watch reads.
type objectMeta struct {
	Kind     string
	Metadata struct {
		Version
		Annotations map[string]string
	}
}

// readMeta decodes an object's metadata.
func readMeta(object []byte) (m objectMeta, err error) {
	if err := json.Unmarshal(object, &m); err != nil {
		return objectMeta{}, fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	return m, nil
}

// open implements wire.
func (jsonWire) open(message []byte) (kind string, object []byte, err error) {
	m, err := readMeta(message)
	return m.Kind, message, err
}

// revision implements wire.
func (jsonWire) revision(object []byte) ([]byte, error) {
	m, err := readMeta(object)
	return []byte(m.Metadata.ResourceVersion), err
}

// endsList implements wire.
func (jsonWire) endsList(bookmark []byte) (bool, error) {
	m, err := readMeta(bookmark)
	return m.Metadata.Annotations[endOfList] == "true", err
}

// values reads consecutive JSON values. It limits the size of each.
type values struct {
	from io.Reader
	left int // bytes that may be read for the present value
	json *json.Decoder
}

func newValues(from io.Reader) *values {
	v := &values{from: from, left: largest}
	v.json = json.NewDecoder(v)
	return v
}

// Read implements io.Reader, for the decoder.
func (v *values) Read(to []byte) (int, error) {
	if v.left <= 0 {
		return 0, fmt.Errorf("%w: a message of more than %d bytes", ErrUnreadable, largest)
	}
	n, err := v.from.Read(to[:min(len(to), v.left)])
	v.left -= n
	return n, err
}

// next decodes the next value. It returns io.EOF after the last.
func (v *values) next(to any) error {
	v.left = largest
	return v.unreadable(v.json.Decode(to))
}

// token reads the next bracket, name or value.
func (v *values) token() (json.Token, error) {
	v.left = largest
	t, err := v.json.Token()
	return t, v.unreadable(err)
}

// unreadable wraps errors of JSON, and leaves errors of reading as they are.
func (v *values) unreadable(err error) error {
	switch err.(type) {
	case *json.SyntaxError, *json.UnmarshalTypeError:
		return fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	return err
}

// jsonEvents are the events of a watch.
type jsonEvents struct{ from *values }

// events implements wire.
func (jsonWire) events(body io.Reader) events { return jsonEvents{newValues(body)} }

// next implements events.
func (e jsonEvents) next() (what string, message []byte, err error) {
	var event struct {
		Type   string
		Object json.RawMessage
	}
	err = e.from.next(&event)
	return event.Type, event.Object, err
}

// list implements wire. It holds no more than one item at a time.
func (jsonWire) list(body io.Reader, wanted string, item func(object []byte) error) (listMeta, error) {
	from := newValues(body)
	if err := from.opens('{'); err != nil {
		return listMeta{}, err
	}
	var kind string
	var meta struct{ ResourceVersion, Continue string }
	for from.json.More() {
		name, err := from.token()
		if err != nil {
			return listMeta{}, unexpected(err)
		}
		switch name {
		case "kind":
			err = from.next(&kind)
		case "metadata":
			err = from.next(&meta)
		case "items":
			err = from.items(item)
		default:
			var other json.RawMessage
			err = from.next(&other)
		}
		if err != nil {
			return listMeta{}, unexpected(err)
		}
	}
	_, err := from.token()
	switch { // a custom resource's list has its items before its kind
	case err != nil:
		return listMeta{}, unexpected(err)
	case kind != wanted:
		return listMeta{}, wrongKind(kind, wanted)
	case meta.ResourceVersion == "":
		return listMeta{}, errUnversioned
	}
	return listMeta{meta.ResourceVersion, meta.Continue}, nil
}

// opens reads an opening bracket.
func (v *values) opens(bracket json.Delim) error {
	t, err := v.token()
	if err == nil && t != bracket {
		err = fmt.Errorf("%w: %v is missing", ErrUnreadable, bracket)
	}
	return unexpected(err)
}

// items calls item with each object of an array. An empty list may be null.
func (v *values) items(item func(object []byte) error) error {
	t, err := v.token()
	switch {
	case err != nil:
		return err
	case t == nil:
		return nil
	case t != json.Delim('['):
		return fmt.Errorf("%w: the items are no array", ErrUnreadable)
	}
	var object json.RawMessage
	for v.json.More() {
		if err := v.next(&object); err != nil {
			return err
		}
		if err := item(object); err != nil {
			return err
		}
	}
	_, err = v.token()
	return err
}
