package command

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/answer"
	"github.com/tulle-net/tulle/pkg/options"
	"github.com/tulle-net/tulle/pkg/status"
)

// TestWait waits for a daemon that starts and finally becomes ready.
func TestWait(t *testing.T) {
	d := &fakeDaemon{readyAfter: 2}
	path := filepath.Join(t.TempDir(), "socket")
	var out bytes.Buffer
	o := options.Options{Output: answer.Text, StatusSocket: path, Wait: time.Minute}
	ended := make(chan error, 1)
	go func() { ended <- showStatus(t.Context(), o, &out) }()
	d.start(t, path)
	if err := <-ended; err != nil || !strings.Contains(out.String(), "ready") {
		t.Errorf("%v: %s", err, out.String())
	}

	// It does not wait longer than its limit.
	o.Wait = time.Millisecond
	o.StatusSocket = (&fakeDaemon{}).serve(t)
	if err := showStatus(t.Context(), o, &out); !errors.Is(err, errFailing) || !strings.Contains(out.String(), "NOT READY") {
		t.Errorf("%v: %s", err, out.String())
	}
	o.StatusSocket = "/nowhere"
	if err := showStatus(t.Context(), o, &out); !errors.Is(err, status.ErrNoDaemon) {
		t.Error(err)
	}
}

// stopAfter is a writer that calls stop at its n-th write.
type stopAfter struct {
	text   strings.Builder
	writes int
	stop   func()
}

func (s *stopAfter) Write(p []byte) (int, error) {
	if s.writes--; s.writes == 0 {
		s.stop()
	}
	return s.text.Write(p)
}

// TestWatch checks that --watch writes repeatedly until its context ends, with and
// without a daemon.
func TestWatch(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	out := stopAfter{writes: 2, stop: cancel}
	o := options.Options{Output: answer.Text, StatusSocket: (&fakeDaemon{readyAfter: 2}).serve(t), Watch: true}
	if err := showStatus(ctx, o, &out); err != nil || strings.Count(out.text.String(), "tulled:") != 2 {
		t.Errorf("%v: %s", err, out.text.String())
	}
	// A daemon that ends does not end --watch.
	ctx, cancel = context.WithCancel(t.Context())
	out = stopAfter{writes: 2, stop: cancel}
	o.StatusSocket = "/nowhere"
	if err := showStatus(ctx, o, &out); err != nil || strings.Count(out.text.String(), "tulled: no daemon answers") != 2 {
		t.Errorf("%v: %s", err, out.text.String())
	}
}

// TestPeers checks which peers each filter lists, and in which form.
func TestPeers(t *testing.T) {
	peer := func(subnet, name string, inSync bool) status.Peer {
		return status.Peer{Key: subnet, Name: name, Subnets: []netip.Prefix{netip.MustParsePrefix(subnet)}, InSync: inSync, By: "tunnel"}
	}
	d := &fakeDaemon{peers: []status.Peer{peer("10.5.1.0/24", "one", true), peer("10.5.2.0/24", "two", false), peer("10.5.3.0/24", "three", true)}}
	socket := d.serve(t)
	for args, want := range map[string]string{
		"":                           "two one three",
		"one":                        "one",
		"10.5.3.9":                   "three",
		"10.5.0.0/16":                "two one three",
		"--failing":                  "two",
		"--failing one":              "",
		"--narrow t":                 "two: three:",
		"--narrow --failing --v=0 t": "two:",
	} {
		var out bytes.Buffer
		words := append([]string{"peers", "--status-socket=" + socket}, strings.Fields(args)...)
		if err := testProgram().run(words, nil, nil, &out); err != nil {
			t.Errorf("%q: %v", args, err)
		}
		var names []string
		for _, word := range strings.Fields(out.String()) {
			if n := strings.TrimSuffix(word, ":"); n == "one" || n == "two" || n == "three" {
				names = append(names, word)
			}
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%q lists %q, want %q", args, got, want)
		}
	}
	var out bytes.Buffer
	if err := testProgram().run([]string{"peers", "four", "--status-socket=" + socket}, nil, nil, &out); err == nil || !strings.Contains(err.Error(), `no peer matches "four"`) || out.Len() > 0 {
		t.Errorf("%v, after %q", err, out.String())
	}
}

func TestReportColours(t *testing.T) {
	const text = "tulled:   ready, version 1\n  failing:  x\n  ok:     route\npeers:    3, 1 UNROUTABLE (see tulled peers)\nwarning: MTU\nnode:  ready\n"
	const want = "tulled:   \x1b[32mready\x1b[0m, version 1\n\x1b[31m  failing:  x\x1b[0m\n\x1b[32m  ok:     route\x1b[0m\n" +
		"peers:    3, \x1b[31m1 UNROUTABLE\x1b[0m (see tulled peers)\n\x1b[33mwarning: MTU\x1b[0m\nnode:  ready\n"
	if got := (terminal{is: true, colour: true}).report(text); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if got := (terminal{is: true}).report(text); got != text {
		t.Errorf("without colours: %q", got)
	}
	if terminalOf(new(bytes.Buffer), nil).is {
		t.Error("a buffer is a terminal")
	}
}
