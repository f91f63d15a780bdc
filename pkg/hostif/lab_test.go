package hostif

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/pkg/test/bubbletest"
	"github.com/tulle-net/tulle/pkg/test/logtest"
	"github.com/tulle-net/tulle/subnet"
)

func TestMain(m *testing.M) {
	log.Keep()
	goleak.VerifyTestMain(m)
}

// log is what the follower has logged. A test that reads it clears it first.
var log logtest.Log

var errTest = errors.New("injected")

// fakeHost is a Source that a test controls.
type fakeHost struct {
	events chan netstate.Event
	broken chan error // ends a Watch

	mu       sync.Mutex
	view     View
	err      error // of Survey and RouteTo
	watchErr error // of WatchHost, at once
	surveys  int
	during   func() // called in Survey, when its result is fixed
}

func (h *fakeHost) Survey(ctx context.Context) (netstate.Survey, error) {
	h.mu.Lock()
	h.surveys++
	view, err, during := h.view, h.err, h.during
	h.during = nil
	h.mu.Unlock()
	if during != nil {
		during()
	}
	return view.Survey, cmp.Or(ctx.Err(), err)
}

func (h *fakeHost) RouteTo(context.Context, netip.Addr) (netstate.Path, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.view.Reach, nil
}

func (h *fakeHost) WatchHost(ctx context.Context, to func(netstate.Event)) error {
	h.mu.Lock()
	err := h.watchErr
	h.mu.Unlock()
	if err != nil {
		return err
	}
	to(netstate.Event{})
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-h.broken:
			return err
		case e := <-h.events:
			to(e)
		}
	}
}

// lab is a follower of a fakeHost, in a bubble of fake time.
type lab struct {
	*testing.T
	host *fakeHost
	stop func() // ends Follow and waits for its end

	mu    sync.Mutex
	calls []string // all calls of Follow, as text
}

// follow starts a follower of the host in text, which faults may change before, and
// calls test. It fails if Follow does not end at once when its context does.
func follow(t *testing.T, text string, spec Spec, test func(*lab), faults ...func(*fakeHost)) {
	t.Helper()
	log.Take()
	view := viewOf(t, text)
	bubbletest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		l := &lab{T: t, host: &fakeHost{view: view, events: make(chan netstate.Event), broken: make(chan error)}}
		for _, fault := range faults {
			fault(l.host)
		}
		done := make(chan error, 1)
		l.stop = sync.OnceFunc(func() {
			synctest.Wait()
			before := time.Now()
			cancel()
			if err := <-done; !errors.Is(err, context.Canceled) {
				t.Errorf("Follow returned %v", err)
			}
			if late := time.Since(before); late > 0 {
				t.Errorf("Follow ended %v late", late)
			}
		})
		defer l.stop()
		go func() { done <- Follow(ctx, l.host, spec, l.record) }()
		test(l)
	})
}

func (l *lab) record(h Interfaces, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls = append(l.calls, text(h, err))
}

// text returns a call as lines: "eth0 192.0.2.7 mtu 1500" and so on, for the uplinks,
// networks on link, tunnels, bridges and families without an uplink.
func text(h Interfaces, err error) string {
	var lines []string
	for _, u := range h.Uplinks {
		if u.IsValid() {
			lines = append(lines, fmt.Sprintf("%s mtu %d", short(u), u.MTU))
		}
	}
	for _, r := range h.OnLink {
		lines = append(lines, "direct "+r.Dst.String()+" "+r.Link)
	}
	for _, t := range h.Tunnels {
		lines = append(lines, "tunnel "+t.Name)
	}
	for _, b := range h.Bridges {
		lines = append(lines, fmt.Sprintf("bridge %s %v", b.Name, b.Addrs))
	}
	for _, f := range subnet.Families {
		if lacks(err, f) {
			lines = append(lines, "no "+f.String())
		}
	}
	return strings.Join(lines, "\n")
}

// lacks reports whether err joins a *NoUplinkError of family f.
func lacks(err error, f subnet.Family) bool {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return slices.ContainsFunc(joined.Unwrap(), func(err error) bool { return lacks(err, f) })
	}
	var missing *NoUplinkError
	return errors.As(err, &missing) && missing.Family == f
}

// become replaces the host, with events.
func (l *lab) become(text string, events ...netstate.Event) {
	l.Helper()
	view := viewOf(l, text)
	l.host.set(func(h *fakeHost) { h.view = view })
	for _, e := range events {
		l.host.events <- e
	}
}

func (h *fakeHost) set(change func(*fakeHost)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change(h)
}

// after waits d, and expects exactly these calls since the last time.
func (l *lab) after(d time.Duration, want ...string) {
	l.Helper()
	<-time.After(d)
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range want {
		want[i] = lines(want[i])
	}
	if !slices.Equal(l.calls, want) {
		l.Errorf("got\n%s\nwant\n%s", strings.Join(l.calls, "\n--\n"), strings.Join(want, "\n--\n"))
	}
	l.calls = nil
}

// surveyed expects n surveys since the last time.
func (l *lab) surveyed(want int) {
	l.Helper()
	l.host.mu.Lock()
	defer l.host.mu.Unlock()
	if l.host.surveys != want {
		l.Errorf("%d surveys, want %d", l.host.surveys, want)
	}
	l.host.surveys = 0
}

// logged expects exactly these messages since the last time.
func (l *lab) logged(want ...string) {
	l.Helper()
	has := func(line, message string) bool { return strings.HasPrefix(line, strconv.Quote(message)) }
	if got := log.Take(); !slices.EqualFunc(got, want, has) {
		l.Errorf("logged\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// lines returns text without the indentation of its lines.
func lines(text string) string {
	var out []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			out = append(out, line)
		}
	}
	return strings.Join(out, "\n")
}
