package traffictest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
)

// variable makes the test's program a sender or a receiver. Its value is a JSON job.
const variable = "TULLE_TRAFFIC"

// job is what one process does.
type job struct {
	Role    string // see roles
	Address string // of the receiver
	Streams int
	Rate    int // packets a second
	Seconds float64
}

var roles = map[string]func(job) error{
	"tcp-sink": tcpSink, "tcp-send": tcpSend, "udp-sink": udpSink, "udp-send": udpSend,
}

// Main does a job and ends if this process was started for one. TestMain calls it first.
func Main() {
	value, ok := os.LookupEnv(variable)
	if !ok {
		return
	}
	var j job
	err := json.Unmarshal([]byte(value), &j)
	if err == nil {
		err = roles[j.Role](j)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// process is one that does a job. Its answer is a number that it prints at its end.
type process struct {
	cmd      *exec.Cmd
	out, err bytes.Buffer
	stop     func() error
}

func start(t testing.TB, ns *kerneltest.NS, j job) *process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: ns.Command(self)}
	p.cmd.Env = append(os.Environ(), variable+"="+string(text))
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.err
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.stop = stdin.Close // a receiver ends when its input does
	ended := make(chan struct{})
	if err := kerneltest.Spawn(p.cmd, func() { <-ended }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { close(ended) })
	return p
}

// wait waits for a process's end, and returns its numbers.
func (p *process) wait(t testing.TB, numbers ...any) {
	t.Helper()
	if err := p.cmd.Wait(); err != nil {
		t.Fatalf("%v: %s", err, &p.err)
	}
	if len(numbers) > 0 {
		if _, err := fmt.Fscan(strings.NewReader(p.out.String()), numbers...); err != nil {
			t.Fatalf("%v: %q", err, &p.out)
		}
	}
}

// TCP returns the bits a second that streams carry from one host to another's address
// during d.
func TCP(t testing.TB, from, to *kerneltest.NS, address string, streams int, d time.Duration) float64 {
	t.Helper()
	return StartTCP(t, from, to, address, streams, d)()
}

// StartTCP starts streams, and returns a function that waits until they have ended and
// returns what TCP does. A stream that breaks, or carries nothing for a minute, fails the
// test.
func StartTCP(t testing.TB, from, to *kerneltest.NS, address string, streams int, d time.Duration) (wait func() float64) {
	t.Helper()
	const port = ":5001"
	sink := start(t, to, job{Role: "tcp-sink", Address: address + port})
	sender := start(t, from, job{Role: "tcp-send", Address: address + port, Streams: streams, Seconds: d.Seconds()})
	return func() float64 {
		t.Helper()
		sender.wait(t)
		_ = sink.stop()
		var received int64
		var seconds float64
		sink.wait(t, &received, &seconds)
		return float64(received) * 8 / seconds
	}
}

// UDP sends small packets at a rate during d. It returns how many were sent a second, and
// which share of them did not arrive.
func UDP(t testing.TB, from, to *kerneltest.NS, address string, rate int, d time.Duration) (perSecond, lost float64) {
	t.Helper()
	const port = ":5002"
	sink := start(t, to, job{Role: "udp-sink", Address: address + port})
	sender := start(t, from, job{Role: "udp-send", Address: address + port, Rate: rate, Seconds: d.Seconds()})
	var sent, received int64
	var seconds float64
	sender.wait(t, &sent, &seconds)
	_ = sink.stop()
	sink.wait(t, &received)
	return float64(sent) / seconds, 1 - float64(received)/float64(sent)
}
