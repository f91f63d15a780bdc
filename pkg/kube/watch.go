package kube

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tulle-net/tulle/pkg/retry"
)

const (
	// sessionTime is the shortest time of a watch. The longest is twice that, so that
	// not all programs restart theirs together.
	sessionTime = 5 * time.Minute
	// sessionGrace is how much longer a watch may last before it counts as lost.
	sessionGrace = 30 * time.Second
	// silenceLimit is how long a server may send nothing of a page or at the
	// beginning of a watch.
	silenceLimit = 30 * time.Second
	// sessionFloor is how long a session counts as short. Of two short ones in a row that
	// the server ended, the next one begins so long after the beginning of the last one,
	// or after half of that.
	sessionFloor = time.Second
	// goodSession is how long a session that brings nothing must last to reset the
	// back-off.
	goodSession = 10 * time.Second
)

// Watch follows the objects of a resource with one list and one watch. A broken watch
// resumes at its last resourceVersion. All objects are listed again only if the
// server does not know that version, or no longer has it. Set its fields before Run,
// and do not change them later.
type Watch[T any] struct {
	Client *Client
	// Path is the path of the resource.
	Path string
	// Name selects one object; "" selects all.
	Name   string
	Format Format[T]
	// Sink gets the objects. A Sink that is a Chooser also sets the format.
	Sink Sink[T]
	// Report is called with each failure of the watch, and with nil when a session
	// begins.
	Report func(err error)
	// Pause waits between two sessions, after that many failures in a row, the last of
	// which was err. It returns an error if ctx ends first. nil stands for the function
	// Pause. A session that brought events and that the server then ended is no failure.
	Pause func(ctx context.Context, failures int, err error) error

	// Only Run uses the following fields.

	from   []byte // the resourceVersion to resume from; empty to list all
	broken bool   // the last watch did not begin, or ended too early
	moved  bool   // the session has read a later resourceVersion than that of its beginning
	// unstreamed is why the last list could not be streamed; the next one comes in
	// pages.
	unstreamed error

	end atomic.Pointer[context.CancelCauseFunc] // ends the present session

	mu       sync.Mutex
	since    time.Time
	revision int64
}

// Sink receives what a Watch reads, from one goroutine. An object is valid until the
// method returns.
type Sink[T any] interface {
	// List begins a full list. It takes effect with its Done.
	List() List[T]
	// Set gets the present state of an object.
	Set(object *T)
	// Delete gets the last state of a deleted object.
	Delete(object *T)
}

// List is a full list while it arrives.
type List[T any] interface {
	// Add adds an object, and reports whether the list did not have it yet.
	Add(object *T) (isNew bool)
	// Delete removes an object that was deleted while the list arrived.
	Delete(object *T)
	// Done applies the list, and reports whether it did. A Chooser may reject it, to
	// get it in another format.
	Done() bool
}

// Chooser is a Sink that chooses the format of each session.
type Chooser[T any] interface {
	Sink[T]
	// Choose returns the format of the next session. A resumed session lists nothing,
	// unless relist is true.
	Choose(resumed bool) (f Format[T], relist bool)
	// Refused reports that the server does not know the format. The next call of
	// Choose returns another.
	Refused()
	// Unfit reports whether the session should restart now in another format. The
	// Watch calls it after every list and event.
	Unfit() bool
}

// floor spreads sessionFloor, so that programs whose watches one server ends together do
// not return together.
var floor = retry.Backoff{First: sessionFloor, Last: sessionFloor}

var (
	// errSilent ends a session when the server sends nothing.
	errSilent = errors.New("no answer in time")
	// errFormat restarts a session at once, with a newly chosen format.
	errFormat = errors.New("the objects must come in another format")
	// errRelist restarts a session with a list. It is not a failure.
	errRelist = errors.New("all objects must be listed again")
	// errPages restarts a session at once, with a list in pages.
	errPages = errors.New("the list must come in pages")
)

// Run follows the objects until ctx ends.
func (w *Watch[T]) Run(ctx context.Context) {
	relisting, short := false, 0
	pause := w.Pause
	if pause == nil {
		pause = Pause
	}
	for failures := 0; ctx.Err() == nil; {
		began := time.Now()
		err := w.session(ctx)
		before := relisting
		relisting = errors.Is(err, errRelist)
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, errFormat), errors.Is(err, errPages):
			continue
		case w.moved && err == nil:
			// The server ends the watch of a reader that it cannot serve fast enough. A
			// proxy may end every watch after an event.
			failures = 0
			if short++; time.Since(began) >= sessionFloor {
				short = 0
			}
			if short > 1 && retry.Sleep(ctx, floor.After(1)-time.Since(began)) != nil {
				return
			}
			continue
		case relisting && !before:
			failures = 1 // the server answers now, so earlier failures do not count
		case !w.moved && time.Since(began) < goodSession:
			failures++
		default:
			failures = 1
		}
		if err != nil && !relisting {
			w.failed(err)
		}
		if pause(ctx, failures, err) != nil {
			return
		}
	}
}

// Restart ends the present session. The next one begins at once, with a newly chosen
// format.
func (w *Watch[T]) Restart() { w.stop(errFormat) }

// Relist ends the present session. The next one lists all objects.
func (w *Watch[T]) Relist() { w.stop(errRelist) }

func (w *Watch[T]) stop(why error) {
	if end := w.end.Load(); end != nil {
		(*end)(why)
	}
}

// Progress returns since when the Watch has worked without a break, and its last
// resourceVersion. since is zero while it does not work.
func (w *Watch[T]) Progress() (since time.Time, revision int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.since, w.revision
}

// failed reports a failure of the watch.
func (w *Watch[T]) failed(err error) {
	w.Report(err)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.since = time.Time{}
}

// works reports that a session has begun.
func (w *Watch[T]) works() {
	w.Report(nil)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.since.IsZero() {
		w.since = time.Now()
	}
}

// reach records the watch's last resourceVersion.
func (w *Watch[T]) reach(revision []byte) {
	if len(revision) == 0 {
		return
	}
	w.from = append(w.from[:0], revision...)
	n := Revision(string(revision))
	w.mu.Lock()
	defer w.mu.Unlock()
	w.revision = n
}

// session runs one watch, and the list before it.
func (w *Watch[T]) session(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w.end.Store(&cancel)
	defer w.end.Store(nil)
	w.moved = false
	w.choose()
	quiet := time.AfterFunc(silenceLimit, func() { cancel(errSilent) })
	defer quiet.Stop()
	query, begins := w.query(), silenceLimit
	query.Set("watch", "1")
	query.Set("allowWatchBookmarks", "true")
	streamed := len(w.from) == 0 && w.unstreamed == nil && w.Client.streaming.usable(w.Path)
	switch {
	case streamed:
		query.Set("sendInitialEvents", "true")
		query.Set("resourceVersionMatch", "NotOlderThan")
		begins = streamSilence
	case len(w.from) == 0:
		err := w.listPages(ctx, quiet)
		w.unstreamed = nil
		if err != nil {
			return w.outcome(ctx, err)
		}
	case w.broken:
		if err := w.reachable(ctx); err != nil {
			return w.outcome(ctx, err)
		}
	}
	query.Set("resourceVersion", string(w.from))
	lasts := sessionTime + rand.N(sessionTime)
	query.Set("timeoutSeconds", strconv.Itoa(int(lasts.Seconds())))
	end := time.AfterFunc(lasts+sessionGrace, func() { cancel(errSilent) })
	defer end.Stop()
	quiet.Reset(begins)
	w.broken = true // until the watch ends in time
	began := time.Now()
	sent, err := w.open(ctx, query)
	if err == nil {
		defer sent.Close()
	}
	if err == nil && streamed {
		err = w.listStream(sent, quiet)
	}
	switch {
	case err != nil && streamed:
		return w.unlisted(ctx, err)
	case err != nil:
		return w.outcome(ctx, err)
	}
	quiet.Stop()
	w.works()
	err = w.follow(sent)
	w.broken = err != nil || time.Since(began) < lasts.Truncate(time.Second)
	return w.outcome(ctx, err)
}

// stream is the body of a watch.
type stream struct {
	events
	io.Closer
}

// open begins a watch.
func (w *Watch[T]) open(ctx context.Context, query url.Values) (stream, error) {
	r, err := w.Client.do(ctx, request{method: http.MethodGet, path: w.Path, query: query, accept: w.Format.accept + ";stream=watch"})
	if err != nil {
		return stream{}, err
	}
	return stream{w.Format.wire.events(r.Body), r.Body}, nil
}

// choose sets the format of a session.
func (w *Watch[T]) choose() {
	if chooser, ok := w.Sink.(Chooser[T]); ok {
		f, relist := chooser.Choose(len(w.from) > 0)
		if w.Format = f; relist {
			w.from = w.from[:0]
		}
	}
}

// unfit reports whether the session should be in another format.
func (w *Watch[T]) unfit() bool {
	chooser, ok := w.Sink.(Chooser[T])
	return ok && chooser.Unfit()
}

// query returns the query that selects the objects.
func (w *Watch[T]) query() url.Values {
	if w.Name != "" {
		return url.Values{"fieldSelector": {"metadata.name=" + w.Name}}
	}
	return url.Values{}
}

// reachable returns an error unless the server has reached the watch's last
// resourceVersion. A server restored from a backup would send a watch nothing until
// it gets there. The request asks for an impossible object, which costs the server
// next to nothing.
func (w *Watch[T]) reachable(ctx context.Context) error {
	_, err := w.page(ctx, url.Values{
		"fieldSelector": {"metadata.name=-"}, "resourceVersion": {string(w.from)}, "resourceVersionMatch": {"NotOlderThan"},
	}, func([]byte) error { return nil })
	return err
}

// follow reads what a watch sends after its list, until the session's time is over.
func (w *Watch[T]) follow(sent stream) error {
	var object T
	for {
		what, message, err := w.next(sent, &object)
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
		switch what {
		case added, modified:
			w.Sink.Set(&object)
		case deleted:
			w.Sink.Delete(&object)
		}
		revision, err := w.Format.wire.revision(message)
		if err != nil {
			return err
		}
		w.moved = w.moved || len(revision) > 0 && !bytes.Equal(revision, w.from)
		w.reach(revision)
		if w.unfit() {
			return errFormat
		}
	}
}

// outcome returns why a session ended, and prepares the next one.
func (w *Watch[T]) outcome(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		err = cause
	}
	chooser, chooses := w.Sink.(Chooser[T])
	refused, answered := errors.AsType[*Error](err)
	switch {
	case errors.Is(err, errRelist):
		w.from = w.from[:0]
	case chooses && w.Format.optional && (Code(err) == http.StatusNotAcceptable || errors.Is(err, errKind)):
		chooser.Refused()
		return errFormat
	case len(w.from) > 0 && answered && (refused.Code == http.StatusGone || refused.Lost):
		w.from = w.from[:0] // not a failure: the watch was broken for too long
		return errRelist
	}
	return err
}
