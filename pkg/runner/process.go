package runner

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode"
	"unicode/utf8"
)

// process is one run of a command.
type process struct {
	text  string // for the shell
	env   []string
	stdin string
	limit time.Duration
	most  int // bytes of its standard output are kept
}

// outcome is how a process ended.
type outcome struct {
	output string // its standard output, at most process.most bytes
	excess bool   // there was more
	took   time.Duration
	killed bool // at its limit
	err    error
}

const (
	shell = "/bin/sh"
	// lingering is how long the end of a command waits for the output of processes that it
	// left behind.
	lingering = 500 * time.Millisecond
	// mostTail is how much of a failed command's output an error quotes.
	mostTail = 300
)

// start runs a process in a process group of its own, and waits for its end. At the
// limit, or when ctx ends, it kills the whole group.
func start(ctx context.Context, p process) outcome {
	begin := time.Now()
	limited, cancel := context.WithTimeout(ctx, p.limit)
	defer cancel()
	cmd := exec.CommandContext(limited, shell, "-c", p.text)
	cmd.Env, cmd.Stdin = p.env, strings.NewReader(p.stdin+"\n")
	output, last := head{most: p.most}, tail{most: mostTail}
	cmd.Stdout, cmd.Stderr = &last, &last // one pipe, which keeps the order
	if p.most > 0 {
		cmd.Stdout = both{&output, &last}
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = lingering
	err := cmd.Run()
	o := outcome{output: output.text(), excess: output.excess, took: time.Since(begin)}
	switch {
	case err == nil, errors.Is(err, exec.ErrWaitDelay):
		// It succeeded; what it started in the background may keep its output open.
		return o
	case ctx.Err() != nil:
		o.err = ctx.Err()
	case limited.Err() != nil:
		o.killed = true
		o.err = fmt.Errorf("it did not end within %s and was killed, with all that it had started%s", p.limit, last.quote())
	default:
		o.err = fmt.Errorf("%w%s", err, last.quote())
	}
	return o
}

// head keeps the first bytes that are written to it.
type head struct {
	buf    bytes.Buffer
	most   int
	excess bool
}

func (h *head) Write(b []byte) (int, error) {
	room := max(0, h.most-h.buf.Len())
	h.excess = h.excess || len(b) > room
	h.buf.Write(b[:min(len(b), room)])
	return len(b), nil
}

func (h *head) text() string { return h.buf.String() }

// tail keeps the last bytes that are written to it. Two goroutines may write.
type tail struct {
	mu   sync.Mutex
	buf  []byte
	most int
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, b[max(0, len(b)-t.most):]...)
	t.buf = t.buf[max(0, len(t.buf)-t.most):]
	return len(b), nil
}

// quote returns what was written as the end of an error's text, in one line and without
// what a terminal would obey.
func (t *tail) quote() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := printable(string(t.buf))
	if text == "" {
		return ""
	}
	return fmt.Sprintf(", output %q", text)
}

// printable returns text in one line, with a replacement for each character that is not
// printed.
func printable(text string) string {
	return strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case r == utf8.RuneError || !unicode.IsPrint(r):
			return '·'
		}
		return r
	}, text)), " ")
}

// both writes to a head and a tail.
type both struct {
	*head
	*tail
}

func (b both) Write(p []byte) (int, error) {
	_, _ = b.head.Write(p)
	return b.tail.Write(p)
}
