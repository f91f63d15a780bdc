package iptables

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/firewall"
	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/subnet"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// host is a namespace whose iptables the test checks.
type host struct {
	*kerneltest.NS
	Options
	lock   string
	ran    []string // the commands that were made for the code under test
	refuse bool     // makes writes fail
	// before is called before each command.
	before func(name string, args []string)
}

func newHost(t testing.TB) *host {
	t.Helper()
	h := &host{NS: kerneltest.NewNS(t, "ipt"), lock: filepath.Join(t.TempDir(), "xtables.lock")}
	inside := h.NS.Command("sleep", "infinity")
	if err := inside.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = inside.Process.Kill()
		_ = inside.Wait()
	})
	process := fmt.Sprintf("/proc/%d", inside.Process.Pid)
	kerneltest.Eventually(t, 10*time.Second, func() error {
		there, err := os.Stat(process + "/ns/net")
		if err != nil {
			return err
		}
		if here, err := os.Stat(h.Path); err != nil || !os.SameFile(here, there) {
			return fmt.Errorf("the process is not in the namespace: %v", err)
		}
		return nil
	})
	h.Options = Options{Proc: process + "/net", Command: func(name string, args ...string) *exec.Cmd {
		if h.before != nil {
			h.before(name, args)
		}
		h.ran = append(h.ran, name+" "+strings.Join(args, " "))
		if h.refuse && strings.Contains(name, "-restore") {
			return h.command("false")
		}
		return h.command(append([]string{name}, args...)...)
	}}
	return h
}

func (h *host) command(args ...string) *exec.Cmd {
	cmd := h.NS.Command(args...)
	cmd.Env = append(os.Environ(), "XTABLES_LOCKFILE="+h.lock)
	return cmd
}

// sh runs commands inside, one per line. A line without a command's name is one of
// the kind's plain iptables.
func (h *host) sh(t testing.TB, k Kind, lines string) {
	t.Helper()
	for line := range strings.Lines(lines) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		if strings.HasPrefix(line, "-") {
			line = "iptables-" + string(k) + " " + line
		}
		if out, err := h.command("sh", "-c", line).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", line, err, out)
		}
	}
}

var (
	dates    = regexp.MustCompile(`(?m)^#.*\n`)
	counters = regexp.MustCompile(`\[\d+:\d+\]`)
)

// save returns everything that iptables-save shows of a kind, in both families,
// without dates and counters.
func (h *host) save(t testing.TB, k Kind) string {
	t.Helper()
	text := ""
	for _, f := range subnet.Families {
		out, err := h.command(bases[f] + "-" + string(k) + "-save").Output()
		if err != nil {
			t.Fatal(err)
		}
		text += f.String() + "\n" + counters.ReplaceAllString(dates.ReplaceAllString(string(out), ""), "[0:0]")
	}
	return text
}

// foreign returns the part of save's result that is not ours.
func foreign(saved string) string {
	var b strings.Builder
	for line := range strings.Lines(saved) {
		if !strings.Contains(line, "TULLE-") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// variant returns a variant of the machine's.
func (h *host) variant(t testing.TB, k Kind) Variant {
	t.Helper()
	found, err := Found(t.Context(), h.Options)
	if err != nil {
		t.Fatal(err)
	}
	v, ok := found.Variant(k)
	if !ok || v.Err != nil {
		t.Fatalf("no %s iptables: install Debian's package iptables: %v %v", k, found.missing, v.Err)
	}
	h.ran = nil
	return v
}

func (h *host) tables(t testing.TB, k Kind) *Tables {
	t.Helper()
	return New(h.variant(t, k), h.Options)
}

// written returns the commands that wrote.
func (h *host) written() (n int) {
	for _, c := range h.ran {
		if strings.Contains(c, "-restore") {
			n++
		}
	}
	return n
}

// sync syncs twice. The second time must write nothing.
func sync(t testing.TB, h *host, tables *Tables, r firewall.Rules, wantChanged bool) {
	t.Helper()
	h.ran = nil
	changed, err := tables.Sync(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if changed != wantChanged || (h.written() > 0) != wantChanged {
		t.Fatalf("changed: %v, with %v", changed, h.ran)
	}
	h.ran = nil
	if changed, err := tables.Sync(t.Context(), r); changed || err != nil || h.written() > 0 {
		t.Fatalf("again: changed %v, %v, with %v", changed, err, h.ran)
	}
}

// rulesOf returns the rules of one chain as they are saved.
func rulesOf(saved string, f subnet.Family, table, chain string) (rules []string) {
	_, saved, _ = strings.Cut(saved, f.String()+"\n")
	_, saved, _ = strings.Cut(saved, "*"+table+"\n")
	saved, _, _ = strings.Cut(saved, "COMMIT\n")
	for line := range strings.Lines(saved) {
		if rule, ok := strings.CutPrefix(strings.TrimSpace(line), "-A "+chain+" "); ok {
			rules = append(rules, rule)
		}
	}
	return rules
}

func everything() firewall.Rules {
	all := everyRules()
	return all[len(all)-1].Rules
}

// bothKinds runs a test on both kinds, each in a host of its own.
func bothKinds(t *testing.T, f func(t *testing.T, h *host, k Kind)) {
	for _, k := range []Kind{Legacy, NFT} {
		t.Run(string(k), func(t *testing.T) { f(t, newHost(t), k) })
	}
}

// scripts writes commands into a folder, and returns a command maker that knows no
// others. The keys are their names.
func scripts(t testing.TB, content map[string]string) Options {
	t.Helper()
	dir := t.TempDir()
	for _, name := range slices.Sorted(maps.Keys(content)) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+content[name]), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return Options{Proc: dir, Command: func(name string, args ...string) *exec.Cmd {
		if _, ok := content[name]; !ok {
			return exec.Command("no-such-"+name, args...)
		}
		return exec.Command("sh", append([]string{filepath.Join(dir, name)}, args...)...)
	}}
}

var _ interface {
	Sync(ctx context.Context, r firewall.Rules) (changed bool, err error)
} = (*Tables)(nil)
