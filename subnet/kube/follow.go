package kube

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"
)

const (
	// page is how many Nodes a server that cannot stream them is asked for at once.
	page = 500
	// session is how long a watch lasts, and up to twice that, so that not all
	// begin theirs anew together.
	session = 5 * time.Minute
	// late is how much longer one may last before it counts as lost.
	late = 30 * time.Second
	// silence is how long a server says nothing that is asked for a list.
	silence = 30 * time.Second
	// longSession is how long a session lasts that was a good one.
	longSession = 10 * time.Second
)

// follower keeps the Nodes of a scope in the book as the cluster has them: by one
// list, and by one watch that goes on from it. Where it breaks it goes on from what
// it had come to; only where the server does not know that, or not any more, all is
// listed again.
type follower struct {
	*Store
	scope   scope
	what    string // in the words of who has to mend it
	from    string // what to go on from; "" for all anew
	lean    bool   // Nodes come as their metadata alone
	refused bool   // the server did not do that, or it would be of no use
	broken  bool   // the last watch did not begin, or ended before its time

	// unstreamed is why the last list could not be streamed. The next one comes in
	// pages.
	unstreamed error

	again    atomic.Pointer[context.CancelCauseFunc] // ends the session that is, if one is
	since    time.Time                               // when it began to be without a break; under Store.mu
	revision int64                                   // that it has come to; too
}

// run follows until ctx ends.
func (f *follower) run(ctx context.Context) {
	again := false
	for failures := 0; ctx.Err() == nil; {
		began := time.Now()
		err := f.session(ctx)
		before := again
		again = errors.Is(err, errAgain)
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, errForm), errors.Is(err, errPages):
			continue
		case again && !before:
			failures = 1 // it answers; for how long it did not is of no matter now
		case time.Since(began) < longSession:
			failures++
		default:
			failures = 1
		}
		if err != nil && !again {
			f.trouble.Failed(f.what, err)
			f.watched(false)
		}
		if f.pause(ctx, failures, err) != nil {
			return
		}
	}
}

// watched takes note of whether the watch works.
func (f *follower) watched(works bool) {
	if works {
		f.trouble.Over(f.what)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case !works:
		f.since = time.Time{}
	case f.since.IsZero():
		f.since = time.Now()
	}
}

// reached takes note of how far the watch has come.
func (f *follower) reached(revision int64) {
	f.from = strconv.FormatInt(revision, 10)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.revision = revision
}

// errAgain has a session begun anew where nothing is wrong.
var errAgain = errors.New("all is to be listed again")

// session is one watch, and what comes before it.
func (f *follower) session(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	f.again.Store(&cancel)
	defer f.again.Store(nil)
	f.choose()
	quiet := time.AfterFunc(silence, func() { cancel(errSilent) })
	defer quiet.Stop()
	query := f.query()
	query.Set("watch", "1")
	query.Set("allowWatchBookmarks", "true")
	patience := silence
	listing := f.from == ""
	switch {
	case listing && (f.unstreamed != nil || !f.client.streaming.usable()):
		from, err := f.list(ctx, quiet)
		f.unstreamed = nil
		if err != nil {
			return f.after(ctx, err)
		}
		f.from, listing = from, false
		if f.lean && f.book.crowded() {
			return errForm
		}
	case listing:
		query.Set("sendInitialEvents", "true")
		query.Set("resourceVersionMatch", "NotOlderThan")
		patience = streamSilence
	case f.broken:
		if err := f.reachable(ctx); err != nil {
			return f.after(ctx, err)
		}
	}
	query.Set("resourceVersion", f.from)
	lasts := session + rand.N(session)
	query.Set("timeoutSeconds", strconv.Itoa(int(lasts.Seconds())))
	end := time.AfterFunc(lasts+late, func() { cancel(errSilent) })
	defer end.Stop()
	quiet.Reset(patience)
	f.broken = true // until one ends in its time
	began := time.Now()
	body, err := f.client.watch(ctx, formOf(f.lean), query)
	switch {
	case err != nil && listing:
		return f.unlisted(ctx, err)
	case err != nil:
		return f.after(ctx, err)
	}
	defer body.Close()
	events := &frames{from: bufio.NewReaderSize(body, 32<<10)}
	if listing {
		if err := f.stream(events, quiet); err != nil {
			return f.unlisted(ctx, err)
		}
	}
	quiet.Stop()
	f.watched(true)
	err = f.read(events)
	f.broken = err != nil || time.Since(began) < lasts.Truncate(time.Second)
	return f.after(ctx, err)
}

// reachable is an error where the server has not come as far as the watch had: its
// etcd was set back to a backup. It would say nothing of that, nor of anything else
// before it is there again. To ask for a Node that cannot be costs it next to nothing.
func (f *follower) reachable(ctx context.Context) error {
	_, _, err := f.client.list(ctx, formOf(f.lean), url.Values{
		"fieldSelector": {"metadata.name=-"}, "resourceVersion": {f.from}, "resourceVersionMatch": {"NotOlderThan"},
	}, func([]byte) error { return nil })
	return err
}

// query asks for the Nodes of its scope.
func (f *follower) query() url.Values {
	if f.scope == itself {
		return url.Values{"fieldSelector": {"metadata.name=" + f.book.own()}}
	}
	return url.Values{}
}

var errSilent = errors.New("no answer in time")

// after is why a session ended, and takes in what that means for the next.
func (f *follower) after(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		err = cause
	}
	var refused *apiError
	switch {
	case errors.Is(err, errAgain):
		f.from = ""
	case f.lean && (code(err) == http.StatusNotAcceptable || errors.Is(err, errKind)):
		return f.refuse()
	case f.from != "" && errors.As(err, &refused) && (refused.Code == http.StatusGone || refused.Lost):
		f.from = "" // nothing is wrong: it was away for too long
		return errAgain
	}
	return err
}

// stream takes in the list that a watch begins with, up to the bookmark after it.
// Quiet ends the session when no Node comes that the list did not have yet.
func (f *follower) stream(events *frames, quiet *time.Timer) error {
	all := f.book.listing(f.scope)
	var v view
	for {
		kind, err := f.next(events, &v)
		if err == io.EOF {
			err = errShort
		}
		if err != nil {
			return err
		}
		switch kind {
		case "ADDED", "MODIFIED":
			before := len(all.nodes)
			if all.add(&v); len(all.nodes) > before {
				quiet.Reset(streamSilence)
			}
		case "DELETED":
			delete(all.nodes, string(v.name))
		case "BOOKMARK":
			if !v.ends() {
				continue
			}
			f.client.streaming.forget()
			if f.book.crowd(all) {
				return f.refuse()
			}
			if v.revision != 0 {
				f.reached(v.revision)
			}
			f.book.replace(all)
			if f.lean && f.book.crowded() {
				return errForm
			}
			return nil
		}
	}
}

// read takes in what a watch says after its list, until its time is over.
func (f *follower) read(events *frames) error {
	var v view
	for {
		kind, err := f.next(events, &v)
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
		switch kind {
		case "ADDED", "MODIFIED":
			f.book.take(f.scope, &v)
		case "DELETED":
			f.book.remove(f.scope, &v)
		}
		if v.revision != 0 {
			f.reached(v.revision)
		}
		if f.lean && f.book.crowded() {
			return errForm
		}
	}
}

// next reads an event, and its Node into v. It returns io.EOF where a watch ends
// between two events.
func (f *follower) next(events *frames, v *view) (kind string, err error) {
	kind, object, err := events.next()
	if err != nil {
		return "", err
	}
	what, object, err := unwrap(object)
	switch {
	case err != nil:
		return "", err
	case f.lean && what == "Node":
		return "", f.refuse()
	case kind == "ERROR" || what != formOf(f.lean).kind:
		return "", failure(what, object)
	}
	switch kind {
	case "ADDED", "MODIFIED", "DELETED", "BOOKMARK":
	default:
		return "", fmt.Errorf("%w: an event %.50q", errMessage, kind)
	}
	err = v.look(object)
	v.lean = f.lean
	return kind, err
}

// ends says whether a bookmark is the one after a list.
func (v *view) ends() bool {
	for _, n := range v.notes {
		if string(n.key) == "k8s.io/initial-events-end" {
			return string(n.value) == "true"
		}
	}
	return false
}

// failure is what a watch says that is no Node.
func failure(kind string, object []byte) error {
	var s status
	if kind != "Status" {
		return fmt.Errorf("%w: a %.50q among Nodes", errMessage, kind)
	}
	if err := s.look(object); err != nil {
		return err
	}
	e := &apiError{}
	e.take(s)
	return e
}

// list lists all Nodes, page by page, into the book.
func (f *follower) list(ctx context.Context, quiet *time.Timer) (from string, err error) {
	all := f.book.listing(f.scope)
	query, form := f.query(), formOf(f.lean)
	query.Set("limit", strconv.Itoa(page))
	for {
		var v view
		revision, more, err := f.client.list(ctx, form, query, func(node []byte) error {
			quiet.Reset(silence)
			if err := v.look(node); err != nil {
				return err
			}
			v.lean = f.lean
			all.add(&v)
			return nil
		})
		switch {
		case code(err) == http.StatusGone && query.Get("continue") != "":
			// The pages are too slow for this cluster: all at once, then.
			all, query, from = f.book.listing(f.scope), f.query(), ""
			continue
		case err != nil:
			return "", err
		case from == "":
			from = revision
		}
		if more == "" {
			if f.unstreamed != nil {
				f.client.streaming.fellBack(f.unstreamed)
			}
			if f.book.crowd(all) {
				return "", f.refuse()
			}
			f.book.replace(all)
			return from, nil
		}
		query.Set("continue", more)
	}
}
