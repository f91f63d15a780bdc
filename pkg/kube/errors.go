package kube

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// ErrUnreadable reports an answer that no API server sends.
var ErrUnreadable = errors.New("unreadable answer of the API server")

// errKind reports an object of another kind than requested.
var errKind = errors.New("not the requested kind")

// wrongKind returns the error for an object of the wrong kind.
func wrongKind(got, wanted string) error {
	return fmt.Errorf("%w: %w: %.50q instead of %s", ErrUnreadable, errKind, got, wanted)
}

// Error is an answer that refuses a request.
type Error struct {
	Code int
	// Reason is Kubernetes' own word for it, like AlreadyExists. A proxy gives none.
	Reason  string
	Message string
	// After is how long the server asks clients to wait.
	After time.Duration
	// Lost reports that the server does not know the requested resourceVersion,
	// because its store was restored from a backup.
	Lost bool
}

func (e *Error) Error() string {
	return fmt.Sprintf("the API server answers %d (%s): %.300q", e.Code, http.StatusText(e.Code), e.Message)
}

// Code returns the HTTP status of err, or 0.
func Code(err error) int {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return 0
}

// unconnected is the failure of a request that got no connection.
type unconnected struct{ error }

func (u unconnected) Unwrap() error { return u.error }

// refusal returns the error for an answer other than OK or Created.
func refusal(r *http.Response, text []byte) error {
	e := &Error{Code: r.StatusCode, Message: string(bytes.TrimSpace(text))}
	if seconds, err := strconv.ParseUint(r.Header.Get("Retry-After"), 10, 16); err == nil {
		e.After = time.Duration(seconds) * time.Second
	}
	// The server refuses a request for metadata alone in JSON.
	for _, w := range []wire{protobufWire{}, jsonWire{}} {
		kind, object, err := w.open(text)
		if err != nil || kind != statusKind {
			continue
		}
		if s, err := w.status(object); err == nil {
			e.take(s)
			e.Code = r.StatusCode
		}
	}
	return e
}

// statusKind is the kind of the object that describes a refusal.
const statusKind = "Status"

// status holds the fields of that object that we use.
type status struct {
	reason      string
	message     string
	code, after uint64 // after is in seconds
	tooNew      bool   // the resourceVersion is newer than the server's
}

// tooNewCause is the cause of a refusal with tooNew.
const tooNewCause = "ResourceVersionTooLarge"

func (e *Error) take(s status) {
	e.Code, e.Reason, e.Message, e.Lost = int(min(s.code, 999)), s.reason, s.message, s.tooNew
	e.After = max(e.After, time.Duration(min(s.after, 1<<16))*time.Second)
}

// status implements wire.
func (protobufWire) status(object []byte) (s status, err error) {
	details := func(field protowire.Number, value []byte, number uint64) error {
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
	err = walk(object, func(field protowire.Number, value []byte, number uint64) error {
		switch field {
		case 3:
			s.message = string(value)
		case 4:
			s.reason = string(value)
		case 5:
			return walk(value, details)
		case 6:
			s.code = number
		}
		return nil
	})
	return s, err
}

// status implements wire.
func (jsonWire) status(object []byte) (status, error) {
	var doc struct {
		Reason, Message string
		Code            uint64
		Details         struct {
			RetryAfterSeconds uint64
			Causes            []struct{ Reason string }
		}
	}
	if err := json.Unmarshal(object, &doc); err != nil {
		return status{}, fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	s := status{reason: doc.Reason, message: doc.Message, code: doc.Code, after: doc.Details.RetryAfterSeconds}
	for _, c := range doc.Details.Causes {
		s.tooNew = s.tooNew || c.Reason == tooNewCause
	}
	return s, nil
}
