package iptables

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"time"
	"unicode"
)

// Options describe the host.
type Options struct {
	// Command returns a command of iptables. If it is nil, exec.Command does.
	Command func(name string, args ...string) *exec.Cmd
	// DryRun omits the writing, and nothing else.
	DryRun bool
	// Proc is the folder where the kernel lists the legacy tables in use. If it is empty,
	// that is /proc/net.
	Proc string
}

const (
	// patience is how long to wait for the lock of the legacy tables.
	patience = "5" // seconds
	// longestRun is the time limit of a command.
	longestRun = 30 * time.Second
	// afterRun is how long a command's children may keep its output open.
	afterRun = time.Second
)

// CommandError is returned for a command of iptables that failed.
type CommandError struct {
	Command string // with its arguments
	Said    string // the first line of its error output
	Fix     string // what a person can do
	Err     error
}

func (e *CommandError) Error() string {
	s := fmt.Sprintf("%s: %v", e.Command, e.Err)
	if e.Said != "" {
		s += ": " + e.Said
	}
	if e.Fix != "" {
		s += "; " + e.Fix
	}
	return s
}

func (e *CommandError) Unwrap() error { return e.Err }

var (
	errLocked = errors.New("another process holds the xtables lock")
	errAbsent = errors.New("the kernel has no nf_tables")
)

// run runs a command and passes its output to read.
func (o Options) run(ctx context.Context, stdin string, output func(io.Reader) error, name string, args ...string) error {
	command := o.Command
	if command == nil {
		command = exec.Command
	}
	ctx, cancel := context.WithTimeoutCause(ctx, longestRun, fmt.Errorf("stopped after %v", longestRun))
	defer cancel()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	cmd := command(name, args...)
	cmd.WaitDelay = afterRun
	cmd.Stdin = strings.NewReader(stdin)
	complaint := &head{}
	cmd.Stderr = complaint
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err == nil {
		stop := context.AfterFunc(ctx, func() {
			_ = cmd.Process.Kill() // it may have ended
			_ = stdout.Close()     // which its children may hold
		})
		unread := output(&limited{Reader: stdout, left: mostOutput})
		if unread != nil { // otherwise the command would wait forever
			_ = cmd.Process.Kill()
		}
		err = cmd.Wait()
		if stop(); unread != nil {
			err = unread
		}
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
	}
	if err == nil {
		return nil
	}
	e := &CommandError{Command: strings.Join(append([]string{name}, args...), " "), Said: complaint.line(), Fix: fix(err, string(complaint.text)), Err: err}
	switch e.Fix {
	case freeLock:
		e.Err = fmt.Errorf("%w for more than %s s", errLocked, patience)
	case loadNFTables:
		e.Err = fmt.Errorf("%w: %w", errAbsent, err)
	}
	return e
}

const (
	freeLock     = "find it, perhaps kube-proxy, Docker, firewalld or an iptables command: fuser -v /run/xtables.lock"
	loadNFTables = "modprobe nf_tables nft_compat, or use the legacy commands"
)

// hints are the fixes for error outputs, by what these contain; the first match
// counts.
var hints = []struct {
	fix  string
	said []string
}{
	{freeLock,
		[]string{"xtables lock"}},
	{"make /run/xtables.lock writable, in a container by mounting the host's",
		[]string{"lock file", "xtables.lock"}},
	{"iptables cannot list a table with rules that nft or firewalld wrote; remove them with nft, or do not use iptables on this host",
		[]string{"Parsing nftables rule failed"}},
	{"run it as root, or with the capabilities CAP_NET_ADMIN and CAP_NET_RAW",
		[]string{"Permission denied", "Operation not permitted", "must be root"}},
	{loadNFTables,
		[]string{"Failed to initialize nft", "rule set generation id", "Protocol not supported"}},
	{"the kernel lacks this table: modprobe iptable_filter iptable_nat ip6table_filter ip6table_nat, or use the commands of nf_tables",
		[]string{"do you need to insmod", "Table does not exist", "can't initialize", "Cannot initialize"}},
	{"the kernel or the package iptables lacks a match or a target: modprobe xt_comment xt_mark xt_MASQUERADE, or install the whole package",
		[]string{"Couldn't load", "No chain/target/match", "No such file or directory", "Extension", "missing kernel module"}},
}

func fix(err error, complaint string) string {
	if errors.Is(err, exec.ErrNotFound) {
		return "install the package iptables, or the folder of its commands is missing in PATH"
	}
	for _, h := range hints {
		if slices.ContainsFunc(h.said, func(s string) bool { return strings.Contains(complaint, s) }) {
			return h.fix
		}
	}
	return ""
}

// head keeps the first bytes that are written.
type head struct{ text []byte }

const mostComplaint = 4 << 10

func (h *head) Write(p []byte) (int, error) {
	h.text = append(h.text, p[:min(len(p), mostComplaint-len(h.text))]...)
	return len(p), nil
}

// line returns the first line with a message. If that line only introduces the next,
// it returns both.
func (h *head) line() string {
	said := ""
	for line := range strings.Lines(string(h.text)) {
		line = strings.TrimSpace(strings.Map(func(r rune) rune {
			if unicode.IsPrint(r) {
				return r
			}
			return -1
		}, line))
		if line == "" || strings.HasPrefix(line, "#") || strings.HasPrefix(line, "Warning:") {
			continue
		}
		if said += line; !strings.HasSuffix(said, ":") {
			break
		}
		said += " "
	}
	return strings.TrimSpace(said)
}
