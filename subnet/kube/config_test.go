package kube

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/test/bubbletest"
	"github.com/tulle-net/tulle/pkg/trouble"
	"github.com/tulle-net/tulle/subnet"
)

// TestConfigFollowsTheFile changes the file in the ways that files are changed, a
// ConfigMap's among them.
func TestConfigFollowsTheFile(t *testing.T) {
	dir := t.TempDir()
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	write := func(name, text string) { t.Helper(); do(os.WriteFile(at(name), []byte(text), 0o644)) }
	with := func(network string) string { return `{"Network": "` + network + `", "Backend": {"Type": "host-gw"}}` }
	// A kubelet mounts net-conf.json → ..data/net-conf.json and ..data → a folder. It
	// changes the second link.
	mount := func(folder, text string) {
		t.Helper()
		do(os.Mkdir(at(folder), 0o755))
		write(folder+"/net-conf.json", text)
		do(os.Symlink(folder, at("..data_tmp")))
		do(os.Rename(at("..data_tmp"), at("..data")))
	}
	path := at("net-conf.json")
	s := &Store{trouble: trouble.Log{Explain: explain}, options: Options{ConfigFile: path}}
	bubbletest.Test(t, func(t *testing.T) {
		var known subnet.Config
		next := func(what, want string) {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), 3*interval)
			defer cancel()
			cfg, err := s.Config(ctx, known)
			if want == "" {
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%s: %+v, %v, and there is no other config", what, cfg, err)
				}
				return
			}
			if err != nil || !cfg.Given || cfg.Pools[subnet.IPv4].Network != netip.MustParsePrefix(want) {
				t.Errorf("%s: %+v, %v, want %s", what, cfg, err, want)
			}
			known = cfg
		}
		next("no file", "")
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := s.Config(ended, known); !errors.Is(err, context.Canceled) || !strings.HasPrefix(err.Error(), "open "+path) {
			t.Errorf("a wait for a file that is missing ends with: %v", err)
		}
		do(os.Symlink("..data/net-conf.json", path))
		mount("..1", with("10.1.0.0/16"))
		next("mounted", "10.1.0.0/16")
		next("nothing new", "")
		mount("..2", with("10.2.0.0/16"))
		next("the ConfigMap was changed", "10.2.0.0/16")
		mount("..3", "{rubbish")
		next("rubbish", "")
		mount("..4", with("10.2.0.0/16")+"\n")
		next("the same in other words", "")
		mount("..5", strings.Repeat(" ", largestConfig)+with("10.3.0.0/16"))
		next("too long", "")
		do(os.Remove(path))
		next("removed", "")
		do(os.Mkdir(path, 0o755))
		next("a folder", "")
		do(os.Remove(path))
		do(syscall.Mkfifo(path, 0o644))
		next("a pipe without a writer", "")
		do(os.Remove(path))
		write("net-conf.json", with("10.4.0.0/16"))
		next("a file", "10.4.0.0/16")
		write("net-conf.json", with("10.5.0.0/16")+" ")
		next("written over", "10.5.0.0/16")

		changed := make(chan subnet.Config, 1)
		go func() {
			cfg, _ := s.Config(t.Context(), known)
			changed <- cfg
		}()
		<-time.After(5 * interval)
		write("new", with("10.6.0.0/16"))
		do(os.Rename(at("new"), path))
		if cfg := <-changed; cfg.Pools[subnet.IPv4].Network != netip.MustParsePrefix("10.6.0.0/16") {
			t.Errorf("while it waits: %+v", cfg)
		}
	})
}
