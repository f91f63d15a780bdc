package cidrfile

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tulle-net/tulle/pkg/test/bubbletest"
	"github.com/tulle-net/tulle/pkg/textfile"
)

// TestParse checks comments, line ends and duplicates, and rejects what is no
// network.
func TestParse(t *testing.T) {
	got, err := Parse([]byte("# who knows us\n\n 192.0.2.7/24 # the office\n2001:db8::/32\r\n192.0.2.0/24\n"))
	want := []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("2001:db8::/32")}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	for text, why := range map[string]string{
		"192.0.2.0/24\n192.0.2.1\n":  "line 2: \"192.0.2.1\" is not a network",
		"::ffff:192.0.2.0/120":       "line 1",
		strings.Repeat("x", 100_000): "token too long",
	} {
		if got, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%.40q: %v, %v", text, got, err)
		}
	}
}

// FuzzParse checks that an accepted file is read the same when it is written again.
func FuzzParse(f *testing.F) {
	f.Add([]byte("192.0.2.0/24\n# x\nfd00::/8"))
	f.Fuzz(func(t *testing.T, text []byte) {
		all, err := Parse(text)
		if err != nil {
			return
		}
		var lines []string
		for _, p := range all {
			lines = append(lines, p.String())
		}
		again, err := Parse([]byte(strings.Join(lines, "\n")))
		if err != nil || !slices.Equal(again, all) {
			t.Errorf("%q is %v, and then %v, %v", text, all, again, err)
		}
	})
}

// TestFollowSeesEveryChange changes a file in each way that files are changed in.
func TestFollowSeesEveryChange(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	do := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	bubbletest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var mu sync.Mutex
		var calls []string
		var running sync.WaitGroup
		running.Go(func() {
			Follow(ctx, path, func(all []netip.Prefix) {
				mu.Lock()
				defer mu.Unlock()
				calls = append(calls, fmt.Sprint(all))
			})
		})
		defer running.Wait()
		defer cancel()
		expect := func(when string, want ...string) {
			t.Helper()
			<-time.After(2 * textfile.Interval)
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if !slices.Equal(calls, want) {
				t.Errorf("%s: read %q, want %q", when, calls, want)
			}
			calls = nil
		}
		expect("no file")
		write("file", "10.1.0.0/16\n")
		expect("a file", "[10.1.0.0/16]")
		expect("nothing new")
		write("file", "10.2.0.0/16\n10.3.0.0/16\n")
		expect("written over", "[10.2.0.0/16 10.3.0.0/16]")
		write("file", "rubbish\n")
		expect("rubbish")
		write("file", strings.Repeat("1.0.0.0/8\n", 2e5))
		expect("too large")
		write("new", "10.4.0.0/16\n")
		do(os.Rename(filepath.Join(dir, "new"), path))
		expect("renamed over", "[10.4.0.0/16]")
		do(os.Remove(path))
		expect("removed")
		do(os.Symlink(filepath.Join(dir, "one"), path))
		write("one", "10.5.0.0/16\n")
		expect("a link", "[10.5.0.0/16]")
		do(os.Remove(path))
		do(os.Mkdir(path, 0o755))
		expect("a folder")
		do(os.Remove(path))
		do(syscall.Mkfifo(path, 0o644))
		expect("a pipe without a writer")
		do(os.Remove(path))
		write("file", "")
		expect("empty", "[]")
	})
}
