package status

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tulle-net/tulle/pkg/budget"
	"github.com/tulle-net/tulle/pkg/keepfile"
	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
)

// serve runs a server until the returned function or the test ends it.
func serve(t *testing.T, path string, s Source) (k *keepfile.Keeper, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	k = keepfile.New(budget.New().Files())
	var running sync.WaitGroup
	running.Go(func() { Serve(ctx, path, "--socket", k, s) })
	stop = func() {
		cancel()
		running.Wait()
	}
	t.Cleanup(stop)
	return k, stop
}

func eventually(t *testing.T, f func() error) {
	t.Helper()
	kerneltest.Eventually(t, 30*time.Second, f)
}

// answers returns an error unless the daemon of this version answers at path, and
// only to root.
func answers(path, version string) error {
	r, err := Dial(path, "--socket").Report(context.Background())
	if err != nil {
		return err
	}
	if r.Version != version {
		return fmt.Errorf("version %s answers, want %s", r.Version, version)
	}
	info, err := os.Stat(path)
	if err == nil && info.Mode() != socketMode {
		err = fmt.Errorf("mode %v", info.Mode())
	}
	return err
}

// of returns a source that answers with a version.
func of(version string) source { return source{report: Report{Version: version}} }

// failing returns an error unless k reports path with this reason.
func failing(k *keepfile.Keeper, path, why string) error {
	if err := k.Failing()[path]; err == nil || !strings.Contains(err.Error(), why) {
		return fmt.Errorf("reported: %v, want %q", err, why)
	}
	return nil
}

// swap exchanges what is at two paths in one step.
func swap(t *testing.T, a, b string) {
	t.Helper()
	check(t, unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE))
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestClientAsksOverSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "deep", "socket")
	s := source{report: ill(), asked: make(chan netip.Addr, 1)}
	serve(t, path, s)
	eventually(t, func() error { return answers(path, ill().Version) })
	c, ctx := Dial(path, "--socket"), t.Context()
	if r, err := c.Report(ctx); err != nil || !reflect.DeepEqual(r, ill()) {
		t.Errorf("%+v, %v", r, err)
	}
	if p, err := c.Peers(ctx); err != nil || !reflect.DeepEqual(p, peers()) {
		t.Errorf("%+v, %v", p, err)
	}
	if e, err := c.Explain(ctx, netip.MustParseAddr("fd00::1")); err != nil || !reflect.DeepEqual(e, explained()) {
		t.Errorf("%+v, %v", e, err)
	}
	if a := <-s.asked; a.String() != "fd00::1" {
		t.Errorf("asked for %s", a)
	}
}

// abandon leaves a socket at path, as a killed daemon does.
func abandon(t *testing.T, path string) {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	check(t, err)
	l.SetUnlinkOnClose(false)
	l.Close()
}

func TestAbandonedSocketIsReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	abandon(t, path)
	if _, err := Dial(path, "--socket").Report(t.Context()); err == nil || !strings.Contains(err.Error(), "no daemon answers") || !strings.Contains(err.Error(), "set --socket as for the daemon") {
		t.Errorf("%v", err)
	}
	_, stop := serve(t, path, of("1"))
	eventually(t, func() error { return answers(path, "1") })
	stop()
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after the end: %v", err)
	}
}

func TestSocketIsRestored(t *testing.T) {
	for name, disturb := range map[string]func(t *testing.T, path string){
		"removed":         func(t *testing.T, path string) { check(t, os.Remove(path)) },
		"moved away":      func(t *testing.T, path string) { check(t, os.Rename(path, path+".moved")) },
		"folder removed":  func(t *testing.T, path string) { check(t, os.RemoveAll(filepath.Dir(path))) },
		"folders removed": func(t *testing.T, path string) { check(t, os.RemoveAll(filepath.Dir(filepath.Dir(path)))) },
		"open to all":     func(t *testing.T, path string) { check(t, os.Chmod(path, 0o666)) },
		"abandoned": func(t *testing.T, path string) {
			check(t, os.Remove(path))
			abandon(t, path)
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "run", "tulle", "socket")
			k, _ := serve(t, path, of("1"))
			eventually(t, func() error { return answers(path, "1") })
			for range 3 {
				disturb(t, path)
				since := time.Now()
				eventually(t, func() error { return answers(path, "1") })
				if took := time.Since(since); took > 5*time.Second {
					t.Errorf("restored after %s", took)
				}
			}
			eventually(t, func() error {
				if f := k.Failing(); len(f) > 0 {
					return fmt.Errorf("reported: %v", f)
				}
				return nil
			})
		})
	}
}

// What others put at the socket's path stays; once they remove it, the socket
// returns.
func TestForeignFileAtSocketStays(t *testing.T) {
	for name, put := range map[string]func(t *testing.T, path string){
		"file":   func(t *testing.T, path string) { check(t, os.WriteFile(path, []byte("mine"), 0o600)) },
		"folder": func(t *testing.T, path string) { check(t, os.Mkdir(path, 0o700)) },
		"link":   func(t *testing.T, path string) { check(t, os.Symlink("nowhere", path)) },
		"datagram socket": func(t *testing.T, path string) {
			c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
			check(t, err)
			t.Cleanup(func() { c.Close() })
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "socket")
			k, stop := serve(t, path, of("1"))
			eventually(t, func() error { return answers(path, "1") })
			other := path + ".other"
			put(t, other)
			want, err := os.Lstat(other)
			check(t, err)
			swap(t, other, path)
			check(t, os.Remove(other))
			eventually(t, func() error { return failing(k, path, "choose another --socket") })
			if got, err := os.Lstat(path); err != nil || !os.SameFile(got, want) {
				t.Fatalf("%v, %v", got, err)
			}
			check(t, os.Remove(path))
			eventually(t, func() error { return answers(path, "1") })
			put(t, other)
			swap(t, other, path)
			stop()
			if _, err := os.Lstat(path); err != nil {
				t.Errorf("after the end: %v", err)
			}
		})
	}
}

func TestLiveSocketOfAnotherDaemonStays(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	_, stop := serve(t, path, of("first"))
	eventually(t, func() error { return answers(path, "first") })
	k, _ := serve(t, path, of("second"))
	eventually(t, func() error { return failing(k, path, "another daemon answers") })
	check(t, answers(path, "first"))
	stop()
	eventually(t, func() error { return answers(path, "second") })
}

// Of daemons that find the same abandoned socket at once, exactly one listens.
func TestOneOfManyDaemonsListens(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	for range 50 {
		abandon(t, path)
		var turn sync.Mutex
		var open []*listener
		var running sync.WaitGroup
		for range 8 {
			running.Go(func() {
				if l, err := listen(path, "--socket"); err == nil {
					turn.Lock()
					defer turn.Unlock()
					open = append(open, l)
				}
			})
		}
		running.Wait()
		if len(open) != 1 {
			t.Fatalf("%d listen", len(open))
		}
		open[0].Close() // leaves the file
		check(t, os.Remove(path))
	}
}

func TestSocketComesWithWritableFolder(t *testing.T) {
	dir := t.TempDir()
	check(t, unix.Mount("tulle-test", dir, "tmpfs", unix.MS_RDONLY, ""))
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	path := filepath.Join(dir, "tulle", "socket")
	k, _ := serve(t, path, of("1"))
	eventually(t, func() error { return failing(k, path, "mount the file system writable") })
	check(t, unix.Mount("", dir, "", unix.MS_REMOUNT, ""))
	eventually(t, func() error { return answers(path, "1") })
}

// A program that removes the socket all the time costs no more than the budget, and
// is reported.
func TestFightOverSocketIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	k, _ := serve(t, path, of("1"))
	eventually(t, func() error {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		if len(k.Fights()) == 0 {
			return errors.New("no fight")
		}
		return nil
	})
	eventually(t, func() error { return answers(path, "1") })
}

// TestFrozenDaemonIsNamed asks a daemon that takes connections, and answers nothing or
// only the beginning.
func TestFrozenDaemonIsNamed(t *testing.T) {
	for begin, says := range map[string]string{"": "ask the daemon at ", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{": "read the daemon's answer: "} {
		path := filepath.Join(t.TempDir(), "socket")
		l, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		var served sync.WaitGroup
		served.Go(func() {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 1<<12))
			_, _ = conn.Write([]byte(begin))
			_, _ = l.Accept() // until the end of the test
			conn.Close()
		})
		c := Dial(path, "--socket")
		c.http.Timeout = 100 * time.Millisecond
		_, err = c.Report(t.Context())
		if text := fmt.Sprint(err); !strings.HasPrefix(text, says) || !strings.Contains(text, "no answer within 100ms: it is frozen") || strings.Contains(text, "deadline") {
			t.Errorf("got %q", text)
		}
		l.Close()
		served.Wait()
	}
}
