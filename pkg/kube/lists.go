package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// pageSize is the number of objects in a page.
const pageSize = 500

// The types of events.
const (
	added    = "ADDED"
	modified = "MODIFIED"
	deleted  = "DELETED"
	bookmark = "BOOKMARK"
)

// errShort reports a stream that ended before its list did.
var errShort = errors.New("the stream ended before its list was complete")

// listStream reads the list that a watch begins with, up to the bookmark that ends
// it. quiet ends the session if no new object arrives for streamSilence.
func (w *Watch[T]) listStream(sent stream, quiet *time.Timer) error {
	list := w.Sink.List()
	var object T
	for {
		what, message, err := w.next(sent, &object)
		if err == io.EOF {
			err = errShort
		}
		if err != nil {
			return err
		}
		switch what {
		case added, modified:
			if list.Add(&object) {
				quiet.Reset(streamSilence)
			}
			continue
		case deleted:
			list.Delete(&object)
			continue
		}
		ends, err := w.Format.wire.endsList(message)
		if err != nil {
			return err
		}
		if !ends {
			continue
		}
		revision, err := w.Format.wire.revision(message)
		if err != nil {
			return err
		}
		w.Client.streaming.worked(w.Path)
		return w.done(list, revision)
	}
}

// done applies a list, unless the objects must come in another format.
func (w *Watch[T]) done(list List[T], revision []byte) error {
	if !list.Done() {
		return errFormat
	}
	w.reach(revision)
	if w.unfit() {
		return errFormat
	}
	return nil
}

// unlisted returns why a streamed list failed, or errPages if a list in pages may
// succeed. It may after silence, and after a refusal that concerns this request alone.
// An unreachable server has refused nothing.
func (w *Watch[T]) unlisted(ctx context.Context, err error) error {
	_, unreached := errors.AsType[unconnected](err)
	err = w.outcome(ctx, err)
	switch silent := errors.Is(err, errSilent); {
	case unreached, ctx.Err() != nil && !silent, errors.Is(err, errFormat), errors.Is(err, errRelist):
		return err
	case Code(err) == http.StatusUnauthorized, Code(err) == http.StatusTooManyRequests:
		return err
	case silent:
		w.failed(err) // reports what the caller waits for
	}
	w.unstreamed = err
	return errPages
}

// next reads an event, and decodes its object into object. It returns io.EOF if the
// watch ends between two events.
func (w *Watch[T]) next(sent stream, object *T) (what string, message []byte, err error) {
	what, message, err = sent.next()
	if err != nil {
		return "", nil, err
	}
	kind, message, err := w.Format.wire.open(message)
	switch {
	case err != nil:
		return "", nil, err
	case kind == statusKind:
		s, err := w.Format.wire.status(message)
		if err != nil {
			return "", nil, err
		}
		e := &Error{}
		e.take(s)
		return "", nil, e
	case kind != w.Format.kind:
		return "", nil, wrongKind(kind, w.Format.kind)
	}
	switch what {
	case added, modified, deleted, bookmark:
	default:
		return "", nil, fmt.Errorf("%w: an event %.50q", ErrUnreadable, what)
	}
	return what, message, w.Format.Decode(message, object)
}

// listPages lists all objects, page by page.
func (w *Watch[T]) listPages(ctx context.Context, quiet *time.Timer) error {
	list, query, revision := w.Sink.List(), w.query(), ""
	query.Set("limit", strconv.Itoa(pageSize))
	var object T
	for {
		page, err := w.page(ctx, query, func(message []byte) error {
			quiet.Reset(silenceLimit)
			if err := w.Format.Decode(message, &object); err != nil {
				return err
			}
			list.Add(&object)
			return nil
		})
		switch {
		case Code(err) == http.StatusGone && query.Get("continue") != "":
			// The pages expire before they are read: list without pages.
			list, query, revision = w.Sink.List(), w.query(), ""
			continue
		case err != nil:
			return err
		case revision == "":
			revision = page.revision
		}
		if page.more == "" {
			if w.unstreamed != nil {
				w.Client.streaming.fellBack(w.Path, w.unstreamed)
			}
			return w.done(list, []byte(revision))
		}
		query.Set("continue", page.more)
	}
}

// page reads one page of a list.
func (w *Watch[T]) page(ctx context.Context, query url.Values, item func(object []byte) error) (listMeta, error) {
	return readPage(ctx, w.Client, w.Path, w.Format, query, item)
}

func readPage[T any](ctx context.Context, c *Client, path string, f Format[T], query url.Values, item func(object []byte) error) (listMeta, error) {
	r, err := c.do(ctx, request{method: http.MethodGet, path: path, query: query, accept: f.acceptList})
	if err != nil {
		return listMeta{}, err
	}
	defer r.Body.Close()
	return f.wire.list(r.Body, f.list, item)
}

// ListAll reads all objects of a resource that has few. It calls item with each, and returns
// the revision of the list. The list has everything that was written before the call.
func ListAll[T any](ctx context.Context, c *Client, path string, f Format[T], item func(object *T)) (revision int64, err error) {
	var object T
	meta, err := readPage(ctx, c, path, f, nil, func(message []byte) error {
		if err := f.Decode(message, &object); err != nil {
			return err
		}
		item(&object)
		return nil
	})
	return Revision(meta.revision), err
}
