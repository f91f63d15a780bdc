package kube

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
)

// A Node is large, and nearly all of it is none of our business: its images, its
// conditions, who wrote which field. So its protobuf is walked here, and what is
// not wanted is stepped over where it stands; a decoder for whole objects would
// make 17 kB of it for each, and again at every heartbeat.

// view is what of a Node matters, where it stands in a message: it is good as
// long as that is.
type view struct {
	name, uid []byte
	revision  int64
	created   int64 // seconds
	cidr      []byte
	cidrs     [][]byte
	addresses []address
	network   condition // NetworkUnavailable
	notes     []note    // all annotations
	lean      bool      // it is of the metadata alone
}

type note struct{ key, value []byte }

// address is one that the cluster knows the host by.
type address struct{ kind, address []byte }

// condition is one of a Node's; when it was looked at last is nobody's business.
type condition struct{ status, reason, message []byte }

var (
	errMessage = errors.New("what the API server says cannot be read")
	magic      = []byte("k8s\x00")
)

// walk calls to with every field of a message: with its bytes, or its number.
func walk(message []byte, to func(field protowire.Number, value []byte, number uint64) error) error {
	for len(message) > 0 {
		field, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return errMessage
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
			return errMessage
		}
		message = message[n:]
		if err := to(field, value, number); err != nil {
			return err
		}
	}
	return nil
}

// unwrap takes an object out of what says of what kind it is.
func unwrap(message []byte) (kind string, object []byte, err error) {
	message, ok := bytes.CutPrefix(message, magic)
	if !ok {
		return "", nil, errMessage
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

// kindOf is the kind that a typeMeta names.
func kindOf(typeMeta []byte) (kind string, err error) {
	err = walk(typeMeta, func(field protowire.Number, value []byte, _ uint64) error {
		if field == 2 {
			kind = string(value)
		}
		return nil
	})
	return kind, err
}

// look reads a Node into v.
func (v *view) look(node []byte) error {
	*v = view{cidrs: v.cidrs[:0], addresses: v.addresses[:0], notes: v.notes[:0]}
	return walk(node, func(field protowire.Number, value []byte, _ uint64) error {
		switch field {
		case 1:
			return walk(value, v.meta)
		case 2:
			return walk(value, v.spec)
		case 3:
			return walk(value, v.status)
		}
		return nil
	})
}

func (v *view) meta(field protowire.Number, value []byte, _ uint64) error {
	switch field {
	case 1:
		v.name = value
	case 5:
		v.uid = value
	case 6:
		v.revision = revision(string(value))
	case 8:
		return walk(value, func(field protowire.Number, _ []byte, number uint64) error {
			if field == 1 {
				v.created = int64(number)
			}
			return nil
		})
	case 12:
		var n note
		err := walk(value, func(field protowire.Number, value []byte, _ uint64) error {
			switch field {
			case 1:
				n.key = value
			case 2:
				n.value = value
			}
			return nil
		})
		v.notes = append(v.notes, n)
		return err
	}
	return nil
}

func (v *view) spec(field protowire.Number, value []byte, _ uint64) error {
	switch field {
	case 1:
		v.cidr = value
	case 7:
		v.cidrs = append(v.cidrs, value)
	}
	return nil
}

func (v *view) status(field protowire.Number, value []byte, _ uint64) error {
	if field == 4 {
		return v.condition(value)
	}
	if field != 5 {
		return nil
	}
	var a address
	err := walk(value, func(field protowire.Number, value []byte, _ uint64) error {
		switch field {
		case 1:
			a.kind = value
		case 2:
			a.address = value
		}
		return nil
	})
	v.addresses = append(v.addresses, a)
	return err
}

func (v *view) condition(value []byte) error {
	var c condition
	wanted := false
	err := walk(value, func(field protowire.Number, value []byte, _ uint64) error {
		switch field {
		case 1:
			wanted = string(value) == networkUnavailable
		case 2:
			c.status = value
		case 5:
			c.reason = value
		case 6:
			c.message = value
		}
		return nil
	})
	if wanted {
		v.network = c
	}
	return err
}

// subnets are the Node's podCIDRs.
func (v *view) subnets() [][]byte {
	if len(v.cidrs) == 0 && len(v.cidr) > 0 {
		return [][]byte{v.cidr}
	}
	return v.cidrs
}

// revision is a resourceVersion as a number, which it is with every API server on
// etcd; 0 where it is none.
func revision(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// status is what an API server says instead of what it was asked for.
type status struct {
	message, reason string
	code, after     uint64 // after so many seconds it may be asked again
	tooNew          bool   // it does not know that resourceVersion yet, if ever
}

// tooNewCause is the cause of a status that says so.
const tooNewCause = "ResourceVersionTooLarge"

func (s *status) look(object []byte) error {
	return walk(object, func(field protowire.Number, value []byte, number uint64) error {
		switch field {
		case 3:
			s.message = string(value)
		case 4:
			s.reason = string(value)
		case 5:
			return walk(value, s.details)
		case 6:
			s.code = number
		}
		return nil
	})
}

// readJSON reads one in JSON, and says whether it is one.
func (s *status) readJSON(text []byte) bool {
	var doc struct {
		Kind, Message, Reason string
		Details               struct {
			RetryAfterSeconds uint64
			Causes            []struct{ Reason string }
		}
	}
	if json.Unmarshal(text, &doc) != nil || doc.Kind != "Status" {
		return false
	}
	s.message, s.reason, s.after = doc.Message, doc.Reason, doc.Details.RetryAfterSeconds
	for _, c := range doc.Details.Causes {
		s.tooNew = s.tooNew || c.Reason == tooNewCause
	}
	return true
}

func (s *status) details(field protowire.Number, value []byte, number uint64) error {
	switch field {
	case 4:
		return walk(value, func(field protowire.Number, value []byte, _ uint64) error {
			s.tooNew = s.tooNew || field == 1 && string(value) == tooNewCause
			return nil
		})
	case 5:
		s.after = number
	}
	return nil
}
