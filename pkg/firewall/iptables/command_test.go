package iptables

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tulle-net/tulle/pkg/firewall"
	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/subnet"
)

// fakes returns tables of a kind whose commands are scripts.
func fakes(t testing.TB, k Kind, save, restore string) *Tables {
	t.Helper()
	v := Variant{Kind: k, Version: modern, save: subnet.Pair[string]{"iptables-save"}, restore: subnet.Pair[string]{"iptables-restore"}}
	return New(v, scripts(t, map[string]string{"iptables-save": save, "iptables-restore": restore}))
}

// one returns rules for IPv4 alone.
func one() firewall.Rules { return everyRules()[15].Rules }

const noNFTables = "echo 'iptables-nft: Failed to initialize nft: Protocol not supported' >&2; exit 1"

// TestNoNFTables checks that a kernel without nf_tables drops nothing there, and has
// nothing of ours.
func TestNoNFTables(t *testing.T) {
	tables := fakes(t, NFT, noNFTables+"\n", noNFTables+"\n")
	for _, r := range []firewall.Rules{everyRules()[1].Rules, {}} {
		if changed, err := tables.Sync(t.Context(), r); changed || err != nil {
			t.Error(changed, err)
		}
	}
	if removed, err := tables.RemoveFlannel(t.Context()); len(removed) > 0 || err != nil {
		t.Error(removed, err)
	}
}

func TestCommandErrorsSayWhy(t *testing.T) {
	for _, c := range []struct {
		name, save, restore string
		want                []string
	}{
		{"not root", "echo 'iptables-save v1.8.9 (legacy): Cannot initialize: Permission denied (you must be root)' >&2; exit 1", "",
			[]string{"read the IPv4 table nat", "iptables-save -t nat", "exit status 1", "Cannot initialize", "CAP_NET_ADMIN"}},
		{"no module", "", "echo \"iptables-restore v1.8.9 (legacy): iptables-restore: unable to initialize table 'nat'\n\nError occurred at line: 1\nTry Table does not exist (do you need to insmod?)\" >&2; exit 2",
			[]string{"write IPv4 tables", "iptables-restore --noflush --wait 5", "unable to initialize table 'nat';", "modprobe iptable_filter"}},
		{"no nf_tables", noNFTables, noNFTables, []string{"write IPv4 tables", "the kernel has no nf_tables: exit status 1", "modprobe nf_tables"}},
		{"a second line", "", "echo 'Warning: old\niptables-nft-restore v1.8.9 (nf_tables): \nline 3: CHAIN_DEL failed (Device or resource busy): chain X' >&2; exit 4",
			[]string{"exit status 4: iptables-nft-restore v1.8.9 (nf_tables): line 3: CHAIN_DEL failed"}},
		{"no match", "", "echo \"iptables-restore v1.8.9 (legacy): Couldn't load match \\`comment':No such file or directory\" >&2; exit 2", []string{"xt_comment"}},
		{"a lock that cannot be opened", "", "echo \"Fatal: can't open lock file /run/xtables.lock: Read-only file system\" >&2; exit 4", []string{"writable"}},
		{"cut off", "printf '*nat\n:POSTROUTING ACCEPT [0:0]\n'", "", []string{"truncated output"}},
		{"nonsense", "printf '*nat\n*nat\nCOMMIT\n'", "", []string{"truncated output"}},
		{"says nothing", "exit 7", "", []string{"exit status 7"}},
		{"hostile", `head -c 100000 /dev/zero | tr '\0' '\1' >&2; exit 1`, "", []string{"iptables-save -t nat: exit status 1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			changed, err := fakes(t, NFT, c.save+"\n", c.restore+"\n").Sync(t.Context(), one())
			if changed || err == nil {
				t.Fatal(changed, err)
			}
			var failed *CommandError
			if !errors.As(err, &failed) {
				t.Errorf("%T", err)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%v\nlacks %s", err, want)
				}
			}
			if strings.ContainsAny(err.Error(), "\n\x01") || len(err.Error()) > 2*mostComplaint {
				t.Errorf("%q", err)
			}
		})
	}
}

// A family that is off need not be there at all; but when everything shall go,
// and it cannot be seen whether it has, that is said.
func TestFamilyThatIsOff(t *testing.T) {
	h := newHost(t)
	v := h.variant(t, NFT)
	for _, missing := range []string{"", "false"} {
		v.save[subnet.IPv6], v.restore[subnet.IPv6] = missing, missing
		tables := New(v, h.Options)
		if _, err := tables.Sync(t.Context(), one()); err != nil {
			t.Error(err)
		}
		if _, err := tables.Sync(t.Context(), firewall.Rules{}); (err != nil) != (missing != "") {
			t.Error(err)
		}
		if _, err := tables.Sync(t.Context(), everything()); err == nil || !strings.Contains(err.Error(), "IPv6") {
			t.Error(err)
		}
	}
}

func TestWaitsForLockOfOthers(t *testing.T) {
	h := newHost(t)
	tables := h.tables(t, Legacy)
	lock, err := os.OpenFile(h.lock, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	_, err = tables.Sync(t.Context(), one())
	if !errors.Is(err, errLocked) || !strings.Contains(err.Error(), "kube-proxy") || h.written() != 1 {
		t.Errorf("%v, with %q", err, h.ran)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	sync(t, h, tables, one(), true)
}

// A command that hangs, even by what it has started, ends with the context.
func TestCancelEndsCommand(t *testing.T) {
	for _, hangs := range []string{"echo > DIR/started; exec sleep 1000", "sleep 1000 & echo $! > DIR/child; echo > DIR/started; wait"} {
		dir := t.TempDir()
		ctx, cancel := context.WithCancel(t.Context())
		tables := fakes(t, NFT, strings.ReplaceAll(hangs, "DIR", dir)+"\n", "")
		done := make(chan error)
		go func() {
			_, err := tables.Sync(ctx, one())
			done <- err
		}()
		kerneltest.Eventually(t, 10*time.Second, func() error {
			_, err := os.Stat(filepath.Join(dir, "started"))
			return err
		})
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if child, err := os.ReadFile(filepath.Join(dir, "child")); err == nil {
			if out, err := exec.Command("kill", strings.TrimSpace(string(child))).CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		}
		if _, err := tables.Sync(ctx, one()); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
}
