package runner

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/pkg/test/bubbletest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errTest = errors.New("planted")

// host is a host on which commands change things. It outlives the Runners of its lab.
type host struct {
	t  *testing.T
	mu sync.Mutex
	// has is what the commands installed, by subnet: the input that they had.
	has map[string]string
	// strict makes an addition fail where something is, and a removal where nothing is.
	strict bool
	log    []string
	// fault returns how a run fails, or nil. after reports that it fails after its effect.
	fault func(run string) (err error, after bool)
	hangs func(run string) bool
}

// start is what runs commands in place of a shell. Its texts are "add", "remove",
// "post", "prepare".
func (h *host) start(ctx context.Context, p process) outcome {
	h.mu.Lock()
	defer h.mu.Unlock()
	subnet := ""
	for _, v := range p.env {
		if s, ok := strings.CutPrefix(v, "SUBNET="); ok {
			subnet = s
		}
	}
	run := strings.TrimSpace(p.text + " " + subnet + " " + p.stdin)
	h.log = append(h.log, run)
	if h.hangs != nil && h.hangs(run) {
		h.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-time.After(p.limit):
		}
		h.mu.Lock()
		if ctx.Err() != nil {
			return outcome{err: ctx.Err()}
		}
		return outcome{err: errors.New("killed"), killed: true, took: p.limit}
	}
	var err error
	after := false
	if h.fault != nil {
		err, after = h.fault(run)
	}
	if err != nil && !after {
		return outcome{err: err}
	}
	if failed := h.do(p, subnet); failed != nil {
		return outcome{err: failed}
	}
	if ctx.Err() != nil {
		return outcome{err: ctx.Err()}
	}
	return outcome{output: " " + p.text + "\n", err: err, took: time.Millisecond}
}

func (h *host) do(p process, subnet string) error {
	was, there := h.has[subnet]
	switch strings.TrimRight(p.text, "0123456789") {
	case "add":
		if there && h.strict {
			return fmt.Errorf("%s exists", subnet)
		}
		h.has[subnet] = p.stdin
	case "remove":
		if !there && h.strict {
			return fmt.Errorf("no %s", subnet)
		}
		if there && was != p.stdin {
			h.t.Errorf("%s is removed with the input %q, and was added with %q", subnet, p.stdin, was)
		}
		delete(h.has, subnet)
	}
	return nil
}

// lab is a Runner on a host, in a bubble of fake time.
type lab struct {
	*testing.T
	h      *host
	r      *Runner
	dir    string
	cancel context.CancelFunc
	events chan netstate.Event
	done   sync.WaitGroup
}

// run calls test with a lab in a bubble.
func run(t *testing.T, test func(*lab)) {
	t.Helper()
	dir := t.TempDir()
	bubbletest.Test(t, func(t *testing.T) {
		l := &lab{T: t, dir: dir, h: &host{t: t, has: make(map[string]string)}}
		l.begin()
		test(l)
		l.end()
	})
}

// begin starts a Runner, as a start of the daemon does.
func (l *lab) begin() {
	l.beginWith(New(Options{Dir: l.dir, Env: []string{"PATH=/bin"}}))
}

// beginWith starts r.
func (l *lab) beginWith(r *Runner) {
	ctx, cancel := context.WithCancel(l.Context())
	l.cancel, l.r = cancel, r
	r.start = l.h.start
	l.events = make(chan netstate.Event, 1000)
	l.done.Go(func() { l.r.Run(ctx) })
	l.done.Go(func() { _ = l.r.Watch(ctx, func(e netstate.Event) { l.events <- e }) })
	synctest.Wait()
}

// end ends the Runner.
func (l *lab) end() {
	l.cancel()
	l.done.Wait()
}

// restart ends the Runner and starts another. What Dump has, and want does not, is
// deleted then, as the loop does.
func (l *lab) restart(want ...netstate.Command) error {
	l.end()
	l.begin()
	return l.resync(want...)
}

// resync does what the loop does with a dump.
func (l *lab) resync(want ...netstate.Command) error {
	l.Helper()
	var desired netstate.State
	for _, c := range want {
		desired.Put(c)
	}
	has, err := l.r.Dump(l.Context(), netstate.Scope{})
	if err != nil {
		l.Fatal(err)
	}
	return l.r.Apply(l.Context(), netstate.Diff(&desired, has))
}

// settle resyncs until nothing is left to do.
func (l *lab) settle(want ...netstate.Command) {
	l.Helper()
	for range 200 {
		if err := l.resync(want...); err == nil && l.r.Status().Waiting == 0 {
			return
		}
		advance(time.Minute)
	}
	l.Fatalf("it does not settle: %+v", l.r.Status())
}

// advance lets time pass.
func advance(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// runs returns what was run since the last call.
func (l *lab) runs() []string {
	l.h.mu.Lock()
	defer l.h.mu.Unlock()
	log := l.h.log
	l.h.log = nil
	return log
}

func (l *lab) wantRuns(what string, want ...string) {
	l.Helper()
	if got := l.runs(); !slices.Equal(got, want) {
		l.Errorf("%s: ran %q, want %q", what, got, want)
	}
}

func create(c netstate.Command) netstate.Plan { return netstate.Plan{{Object: c}} }

func remove(c netstate.Command) netstate.Plan {
	return netstate.Plan{{Verb: netstate.Delete, Object: c}}
}

// peer returns a peer's command with an input.
func peer(n int, input string) netstate.Command {
	s := netip.MustParsePrefix(fmt.Sprintf("10.5.%d.0/24", n))
	return netstate.Command{Name: "SubnetAddCommand", Subnet: s, Run: "add", Undo: "remove", Env: "SUBNET=" + s.String(), Stdin: input, Limit: 30 * time.Second}
}

func pfx(s string) netip.Prefix { return netip.MustParsePrefix(s) }

// post is this host's command.
var post = netstate.Command{Name: "PostStartupCommand", Run: "post", Limit: 30 * time.Second}

// set changes what the host's commands go by.
func (l *lab) set(f func()) {
	l.h.mu.Lock()
	defer l.h.mu.Unlock()
	f()
}

func (l *lab) faulty(fault func(run string) (error, bool)) { l.set(func() { l.h.fault = fault }) }

func (l *lab) hanging(hangs func(run string) bool) { l.set(func() { l.h.hangs = hangs }) }

// has returns what the host has.
func (l *lab) has() map[string]string {
	l.h.mu.Lock()
	defer l.h.mu.Unlock()
	return maps.Clone(l.h.has)
}
