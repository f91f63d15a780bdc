package kube

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
)

const (
	protobufType = "application/vnd.kubernetes.protobuf"
	jsonType     = "application/json"
)

// PatchKind is the content type of a patch.
type PatchKind string

// The kinds of patches that callers of this package use.
const (
	MergePatch          PatchKind = "application/merge-patch+json"
	StrategicMergePatch PatchKind = "application/strategic-merge-patch+json"
)

// largest is a size that no object reaches: etcd's limit is 1.5 MB.
const largest = 16 << 20

// Path returns the path of an object or its subresource.
func Path(resource string, names ...string) string {
	for _, name := range names {
		resource += "/" + url.PathEscape(name)
	}
	return resource
}

// Get reads one object into to.
func Get[T any](ctx context.Context, c *Client, path string, f Format[T], to *T) error {
	r, err := c.do(ctx, request{method: http.MethodGet, path: path, accept: f.accept})
	if err != nil {
		return err
	}
	return f.read(r, to)
}

// Patch changes an object, and reads its new state into to.
func Patch[T any](ctx context.Context, c *Client, path string, kind PatchKind, change []byte, f Format[T], to *T) error {
	r, err := c.do(ctx, request{
		method: http.MethodPatch, path: path, query: c.writer(), content: string(kind), body: change, accept: f.accept,
	})
	if err != nil {
		return err
	}
	return f.read(r, to)
}

// writer returns the query that names the writer. The server need not look for unknown fields: it
// would only warn of them, in a header that nothing reads, at a twentieth of the cost of a patch.
func (c *Client) writer() url.Values {
	return url.Values{"fieldManager": {c.options.Name}, "fieldValidation": {"Ignore"}}
}

// read decodes an answer into to, and closes it.
func (f Format[T]) read(r *http.Response, to *T) error {
	text, err := readAll(r)
	if err != nil {
		return err
	}
	kind, object, err := f.wire.open(text)
	switch {
	case err != nil:
		return err
	case kind != f.kind:
		return wrongKind(kind, f.kind)
	}
	return f.Decode(object, to)
}

// readAll reads an answer, and closes it.
func readAll(r *http.Response) ([]byte, error) {
	defer r.Body.Close()
	text, err := io.ReadAll(io.LimitReader(r.Body, largest))
	return text, unexpected(err)
}

// request is one request to the API server.
type request struct {
	method, path string
	query        url.Values
	content      string // of the body
	body         []byte
	accept       string
}

// accepts reports whether an answer may be of a media type.
func (r request) accepts(kind string) bool {
	for accepted := range strings.SplitSeq(r.accept, ",") {
		if accepted, _, _ = strings.Cut(accepted, ";"); accepted == kind {
			return true
		}
	}
	return false
}

// typeOf returns the media type of an answer, without parameters.
func typeOf(answer *http.Response) string {
	kind, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	return kind
}

// do makes a request. The caller closes the answer.
func (c *Client) do(ctx context.Context, what request) (*http.Response, error) {
	way := c.current()
	to := way.base.JoinPath(what.path)
	to.RawQuery = what.query.Encode()
	r, err := http.NewRequestWithContext(ctx, what.method, to.String(), bytes.NewReader(what.body))
	if err != nil {
		return nil, unconnected{err}
	}
	r.Header.Set("Accept", what.accept)
	if what.body != nil {
		r.Header.Set("Content-Type", what.content)
	}
	by := way.http
	if what.query.Has("watch") {
		by = way.watches
	}
	answer, err := roundTrip(by, r)
	if err != nil {
		return nil, err
	}
	switch answer.StatusCode {
	case http.StatusOK, http.StatusCreated, http.StatusAccepted:
		if kind := typeOf(answer); !what.accepts(kind) {
			answer.Body.Close()
			return nil, fmt.Errorf("%w: its type is %q", ErrUnreadable, kind)
		}
		return answer, nil
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(answer.Body, 64<<10)) // a cut text only shortens the error
	return nil, refusal(answer, text)
}

// roundTrip sends a request. It returns an unconnected error if there was no
// connection.
func roundTrip(client *http.Client, r *http.Request) (*http.Response, error) {
	var connected atomic.Bool
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }}
	answer, err := client.Do(r.WithContext(httptrace.WithClientTrace(r.Context(), trace)))
	if err != nil && !connected.Load() {
		err = unconnected{err}
	}
	return answer, err
}
