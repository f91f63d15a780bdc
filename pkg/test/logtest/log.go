// Package logtest lets tests read the log, of which a process has only one.
//
// A test that does not run in parallel captures it:
//
//	log := logtest.Capture(t, 0) // shown if the test fails
//	log.Count("it broke")
//
// A package whose tests all read it keeps a Log, in its TestMain:
//
//	var log logtest.Log
//	func TestMain(m *testing.M) { log.Keep(); ... }
package logtest

import (
	"bytes"
	"flag"
	"fmt"
	"strings"
	"sync"
	"testing"

	"k8s.io/klog/v2"
)

// most is the limit of what a Log keeps between two calls of Take.
const most = 16 << 20

// Log collects what was logged.
type Log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Capture sends the log to a new Log until the test ends.
func Capture(t testing.TB, verbosity int) *Log {
	t.Helper()
	state := klog.CaptureState()
	l := &Log{}
	l.keep(verbosity)
	t.Cleanup(func() {
		klog.Flush()
		state.Restore()
		if t.Failed() {
			t.Log(l)
		}
	})
	return l
}

// Keep sends the log to l for as long as the process runs, and stops klog's own
// goroutine.
func (l *Log) Keep() {
	l.keep(0)
	klog.StopFlushDaemon()
}

func (l *Log) keep(verbosity int) {
	flags := flag.NewFlagSet("", flag.PanicOnError)
	klog.InitFlags(flags)
	_ = flags.Parse([]string{ // otherwise it panics
		"-logtostderr=false", "-alsologtostderr=false", "-stderrthreshold=FATAL", "-one_output", fmt.Sprintf("-v=%d", verbosity),
	})
	klog.SetOutput(l)
}

// Write implements io.Writer.
func (l *Log) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.text.Len() > most {
		l.text.Next(most / 2)
	}
	return l.text.Write(text)
}

func (l *Log) String() string {
	klog.Flush()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Take returns each line since the last Take, without time and source position.
func (l *Log) Take() []string {
	klog.Flush()
	l.mu.Lock()
	defer l.mu.Unlock()
	var lines []string
	for line := range strings.Lines(l.text.String()) {
		if _, text, ok := strings.Cut(strings.TrimSpace(line), "] "); ok {
			lines = append(lines, text)
		}
	}
	l.text.Reset()
	return lines
}

// Count returns how many lines contain all parts.
func (l *Log) Count(parts ...string) (n int) {
lines:
	for line := range strings.Lines(l.String()) {
		for _, part := range parts {
			if !strings.Contains(line, part) {
				continue lines
			}
		}
		n++
	}
	return n
}
