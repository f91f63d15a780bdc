package kube

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// frames are the events of a watch, each after its length.
type frames struct {
	from *bufio.Reader
	buf  []byte
}

// events implements wire.
func (protobufWire) events(body io.Reader) events {
	return &frames{from: bufio.NewReaderSize(body, 32<<10)}
}

// next implements events.
func (f *frames) next() (what string, message []byte, err error) {
	var head [4]byte
	if _, err := io.ReadFull(f.from, head[:]); err != nil {
		return "", nil, err
	}
	f.buf, err = read(f.from, uint64(binary.BigEndian.Uint32(head[:])), f.buf)
	if err != nil {
		return "", nil, err
	}
	err = walk(f.buf, func(field protowire.Number, value []byte, _ uint64) error {
		switch field {
		case 1:
			what = string(value)
		case 2: // it contains the object only
			return walk(value, func(field protowire.Number, value []byte, _ uint64) error {
				if field == 1 {
					message = value
				}
				return nil
			})
		}
		return nil
	})
	return what, message, err
}

// portion is how much is read at a time. A message that claims to be long costs no
// more memory than what has arrived.
const portion = 64 << 10

// read reads n bytes into buf, or into a larger one.
func read(from *bufio.Reader, n uint64, buf []byte) ([]byte, error) {
	if n > largest {
		return buf, fmt.Errorf("%w: a message of %d bytes", ErrUnreadable, n)
	}
	buf = buf[:0]
	for left := int(n); left > 0; {
		size := min(left, portion)
		if cap(buf)-len(buf) < size {
			buf = slices.Grow(buf, size+size/4)
		}
		next := buf[len(buf) : len(buf)+size]
		if _, err := io.ReadFull(from, next); err != nil {
			return buf, unexpected(err)
		}
		buf, left = buf[:len(buf)+size], left-size
	}
	return buf, nil
}

// errUnversioned reports a list without a resourceVersion to watch from.
var errUnversioned = fmt.Errorf("%w: a list without a resourceVersion", ErrUnreadable)

// list implements wire. It holds no more than one item at a time.
func (protobufWire) list(body io.Reader, wanted string, item func(object []byte) error) (m listMeta, err error) {
	from := bufio.NewReaderSize(body, 64<<10)
	head := make([]byte, len(magic))
	if _, err := io.ReadFull(from, head); err != nil {
		return listMeta{}, unexpected(err)
	}
	if !bytes.Equal(head, magic) {
		return listMeta{}, ErrUnreadable
	}
	kind, found := "", false
	for {
		field, n, end, err := header(from)
		switch {
		case err != nil:
			return listMeta{}, err
		case end && m.revision == "":
			return listMeta{}, errUnversioned
		case end:
			return m, nil
		case field == 1:
			var what []byte
			if what, err = read(from, n, nil); err == nil {
				kind, err = kindOf(what)
			}
		case field == 2 && kind != wanted:
			return listMeta{}, wrongKind(kind, wanted)
		case field == 2 && !found:
			found = true
			m, err = readItems(&io.LimitedReader{R: from, N: int64(n)}, item)
		default:
			_, err = io.CopyN(io.Discard, from, int64(n))
		}
		if err != nil {
			return listMeta{}, unexpected(err)
		}
	}
}

// readItems reads the content of a list.
func readItems(list *io.LimitedReader, item func(object []byte) error) (m listMeta, err error) {
	from := bufio.NewReader(list)
	var buf []byte
	for {
		field, n, end, err := header(from)
		switch {
		case err != nil:
			return listMeta{}, err
		case end && list.N > 0: // the list is incomplete
			return listMeta{}, io.ErrUnexpectedEOF
		case end:
			return m, nil
		}
		if buf, err = read(from, n, buf); err != nil {
			return listMeta{}, err
		}
		switch field {
		case 1:
			err = walk(buf, func(field protowire.Number, value []byte, _ uint64) error {
				switch field {
				case 2:
					m.revision = string(value)
				case 3:
					m.more = string(value)
				}
				return nil
			})
		case 2:
			err = item(buf)
		}
		if err != nil {
			return listMeta{}, err
		}
	}
}

// header reads the next field's number and length. All fields here have a length.
func header(from *bufio.Reader) (field protowire.Number, n uint64, end bool, err error) {
	tag, err := binary.ReadUvarint(from)
	if err == io.EOF {
		return 0, 0, true, nil
	}
	if err != nil {
		return 0, 0, false, unexpected(err)
	}
	field, kind := protowire.DecodeTag(tag)
	if kind != protowire.BytesType {
		return 0, 0, false, ErrUnreadable
	}
	if n, err = binary.ReadUvarint(from); err == nil && n > 1<<40 {
		err = ErrUnreadable
	}
	return field, n, false, unexpected(err)
}

// unexpected turns io.EOF into io.ErrUnexpectedEOF.
func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
