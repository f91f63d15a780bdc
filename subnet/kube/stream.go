package kube

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"google.golang.org/protobuf/encoding/protowire"
)

// largest is more than any object has: etcd takes 1.5 MB.
const largest = 16 << 20

// frames are the messages of a watch.
type frames struct {
	from *bufio.Reader
	buf  []byte
}

// next is the next message's kind and object, good until the one after it.
func (f *frames) next() (kind string, object []byte, err error) {
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
			kind = string(value)
		case 2: // in it is the object alone
			return walk(value, func(field protowire.Number, value []byte, _ uint64) error {
				if field == 1 {
					object = value
				}
				return nil
			})
		}
		return nil
	})
	return kind, object, err
}

// read reads n bytes into buf, or a larger one.
func read(from *bufio.Reader, n uint64, buf []byte) ([]byte, error) {
	if n > largest {
		return buf, fmt.Errorf("%w: a message of %d bytes", errMessage, n)
	}
	if uint64(cap(buf)) < n {
		buf = make([]byte, n+n/4)
	}
	buf = buf[:n]
	_, err := io.ReadFull(from, buf)
	return buf, unexpected(err)
}

// errKind is that a list is of something else.
var errKind = errors.New("it is not what was asked for")

// readList reads a list as it comes, of which no more than one item is held at a
// time. It returns the list's resourceVersion and where it goes on, if it does.
func readList(body io.Reader, wanted string, to func(item []byte) error) (revision, more string, err error) {
	from := bufio.NewReaderSize(body, 64<<10)
	head := make([]byte, len(magic))
	if _, err := io.ReadFull(from, head); err != nil {
		return "", "", unexpected(err)
	}
	if !bytes.Equal(head, magic) {
		return "", "", errMessage
	}
	kind, found := "", false
	for {
		field, n, end, err := header(from)
		switch {
		case err != nil:
			return "", "", err
		case end:
			if revision == "" {
				return "", "", fmt.Errorf("%w: a list without a resourceVersion", errMessage)
			}
			return revision, more, nil
		case field == 1:
			var what []byte
			if what, err = read(from, n, nil); err == nil {
				kind, err = kindOf(what)
			}
		case field == 2 && kind != wanted:
			return "", "", fmt.Errorf("%w: %w: a %.50q in the place of a %s", errMessage, errKind, kind, wanted)
		case field == 2 && !found:
			found = true
			revision, more, err = readItems(&io.LimitedReader{R: from, N: int64(n)}, to)
		default:
			_, err = io.CopyN(io.Discard, from, int64(n))
		}
		if err != nil {
			return "", "", unexpected(err)
		}
	}
}

// readItems reads what is in a list.
func readItems(list *io.LimitedReader, to func(item []byte) error) (revision, more string, err error) {
	from := bufio.NewReader(list)
	var buf []byte
	for {
		field, n, end, err := header(from)
		switch {
		case err != nil:
			return "", "", err
		case end && list.N > 0: // the half of a list is none
			return "", "", io.ErrUnexpectedEOF
		case end:
			return revision, more, nil
		}
		if buf, err = read(from, n, buf); err != nil {
			return "", "", err
		}
		switch field {
		case 1:
			err = walk(buf, func(field protowire.Number, value []byte, _ uint64) error {
				switch field {
				case 2:
					revision = string(value)
				case 3:
					more = string(value)
				}
				return nil
			})
		case 2:
			err = to(buf)
		}
		if err != nil {
			return "", "", err
		}
	}
}

// header is the next field's number and length; all that are here have one.
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
		return 0, 0, false, errMessage
	}
	if n, err = binary.ReadUvarint(from); err == nil && n > 1<<40 {
		err = errMessage
	}
	return field, n, false, unexpected(err)
}

// unexpected is err where no end was to come.
func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
