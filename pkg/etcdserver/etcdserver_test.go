package etcdserver

import (
	"context"
	"errors"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/test/etcdtest"
)

func start(t *testing.T, o Options) *Server {
	t.Helper()
	s, err := Start(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Data outlive the server.
func TestRestart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "etcd")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for i, listen := range []string{"http://127.0.0.1:0", "unix://" + filepath.Join(t.TempDir(), "s"), "http://[::1]:0"} {
		s := start(t, Options{Dir: dir, Listen: listen})
		c := etcdtest.Dial(t, s.Endpoint())
		w := <-c.Watch(t.Context(), "x", clientv3.WithCreatedNotify())
		if w.Err() != nil {
			t.Error(w.Err())
		}
		r, err := c.Get(t.Context(), "x")
		if err != nil || int(r.Count) != min(i, 1) {
			t.Errorf("%s: %v, %v", listen, r, err)
		}
		if _, err := c.Put(t.Context(), "x", listen); err != nil {
			t.Error(err)
		}
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	}
}

// TestRefused checks that unusable settings are errors.
func TestRefused(t *testing.T) {
	s := start(t, Options{Dir: t.TempDir(), Listen: "http://127.0.0.1:0"})
	defer s.Stop()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		options Options
		want    string
	}{
		{Options{Listen: s.Endpoint()}, "cannot listen at"},
		{Options{Listen: "http://192.0.2.1:2379"}, "beyond loopback"},
		{Options{Listen: "unix:///nowhere/s"}, "/nowhere/s"},
		{Options{Listen: "127.0.0.1:2379"}, "not a plain URL"},
		{Options{Listen: "http://127.0.0.1"}, "cannot listen at"},
		{Options{Listen: "ftp://user:secret@127.0.0.1:1"}, "not a plain URL"},
		{Options{Listen: "http://0.0.0.0:2379"}, "beyond loopback"},
		{Options{Listen: "http://[::]:2379"}, "beyond loopback"},
		{Options{Listen: "unix://relative"}, "cannot listen at"},
		{Options{Listen: "https://127.0.0.1:0"}, "cert"},
		{Options{Listen: "https://192.0.2.1:2379", CertFile: "c", KeyFile: "k"}, "without client certificates"},
		{Options{Listen: "https://:2379", CertFile: "c", KeyFile: "k"}, "without client certificates"},
		{Options{Listen: "http://127.0.0.1:0", Dir: file}, file},
	} {
		if test.options.Dir == "" {
			test.options.Dir = t.TempDir()
		}
		if s, err := Start(t.Context(), test.options); err == nil {
			s.Stop()
			t.Errorf("%+v was not refused", test.options)
		} else if !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%+v: %v", test.options, err)
		}
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if s, err := Start(cancelled, Options{Dir: t.TempDir(), Listen: "http://127.0.0.1:0"}); err == nil {
		s.Stop() // it was ready already
	} else if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	kerneltest.Eventually(t, time.Minute, begun)
}

// begun returns an error while a start that was cancelled still works in its folder.
func begun() error {
	stacks := make([]byte, 4<<20)
	if strings.Contains(string(stacks[:runtime.Stack(stacks, true)]), "tulle/pkg/etcdserver.(*Server).begin.func") {
		return errors.New("an etcd is still being started")
	}
	return nil
}

// Data that cannot be used end the start with an error, not the process.
func TestBrokenData(t *testing.T) {
	for want, spoil := range map[string]func(t *testing.T, dir string){
		"invalid database": func(t *testing.T, dir string) { scribble(t, filepath.Join(dir, "member/snap/db")) },
		"crashed while reading": func(t *testing.T, dir string) {
			logs, err := filepath.Glob(filepath.Join(dir, "member/wal/*.wal"))
			if err != nil || len(logs) == 0 {
				t.Fatal(logs, err)
			}
			for _, f := range logs {
				scribble(t, f)
			}
		},
		"newer etcd": newer,
	} {
		t.Run(want, func(t *testing.T) {
			o := Options{Dir: hauntedDir(t), Listen: "http://127.0.0.1:0"}
			s := start(t, o)
			if _, err := etcdtest.Dial(t, s.Endpoint()).Put(t.Context(), "x", "y"); err != nil {
				t.Fatal(err)
			}
			s.Stop()
			<-s.etcd.Server.StopNotify() // Stop gives up on a slow disk
			spoil(t, o.Dir)
			s, err := Start(t.Context(), o)
			if err == nil {
				s.Stop()
				t.Fatal("it started")
			}
			if !strings.Contains(err.Error(), o.Dir) || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// hauntedDir is a folder in which an etcd that hangs may still make files while
// it is removed.
func hauntedDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "tulle-etcd")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kerneltest.Eventually(t, 10*time.Second, func() error { return os.RemoveAll(dir) }) })
	return dir
}

func scribble(t *testing.T, file string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(strings.Repeat("no data ", 10000)), 0o600); err != nil {
		t.Fatal(err)
	}
}

// What listens at all addresses is found on loopback by clients on this host.
func TestEndpoint(t *testing.T) {
	for _, test := range []struct{ listen, want string }{
		{"http://127.0.0.1:0", "http://127.0.0.1:PORT"},
		{"http://[::1]:0", "http://[::1]:PORT"},
		{"http://localhost:0", "http://localhost:PORT"},
		{"http://0.0.0.0:0", "http://127.0.0.1:PORT"},
		{"http://[::]:0", "http://127.0.0.1:PORT"},
		{"http://:0", "http://127.0.0.1:PORT"},
		{"unix:///SOCKET", "unix:///SOCKET"},
	} {
		socket := filepath.Join(t.TempDir(), "s")
		u, err := url.Parse(strings.Replace(test.listen, "/SOCKET", socket, 1))
		if err != nil {
			t.Fatal(err)
		}
		c, err := listen(u, transport.TLSInfo{})
		if err != nil {
			t.Fatal(err)
		}
		port := ""
		if a, ok := c.listener.Addr().(*net.TCPAddr); ok {
			port = strconv.Itoa(a.Port)
		}
		want := strings.NewReplacer("/SOCKET", socket, "PORT", port).Replace(test.want)
		if got := c.endpoint().String(); got != want {
			t.Errorf("%s: %s, not %s", test.listen, got, want)
		}
		c.stop()
	}
}

// TestListensToClientsOnly proves that etcd opens no socket for members, which
// others could reach.
func TestListensToClientsOnly(t *testing.T) {
	before := listening(t)
	s := start(t, Options{Dir: t.TempDir(), Listen: "http://127.0.0.1:0"})
	defer s.Stop()
	if during := listening(t); len(during) != len(before)+1 {
		t.Errorf("before the start %q listened, now %q do", before, during)
	}
}

// listening returns the sockets on which this process listens, a line of /proc/net
// each.
func listening(t *testing.T) []string {
	t.Helper()
	own := make(map[string]bool) // by inode
	links, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		to, _ := os.Readlink(link) // it may be closed by now
		if inode, ok := strings.CutPrefix(to, "socket:["); ok {
			own[strings.TrimSuffix(inode, "]")] = true
		}
	}
	var found []string
	for _, table := range []struct {
		file         string
		state, inode int
		listens      string
	}{
		{"tcp", 3, 9, "0A"}, {"tcp6", 3, 9, "0A"},
		{"unix", 3, 6, "00010000"}, // the flag of a socket that accepts
	} {
		text, err := os.ReadFile("/proc/self/net/" + table.file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if words := strings.Fields(line); len(words) > table.inode && words[table.state] == table.listens && own[words[table.inode]] {
				found = append(found, line)
			}
		}
	}
	return found
}

// A socket's path is taken over from a process that crashed, and from no living one.
func TestUnixSocketOfAnother(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "s")
	o := Options{Dir: filepath.Join(dir, "etcd"), Listen: "unix://" + path}
	refused := func(want string) {
		t.Helper()
		if s, err := Start(t.Context(), o); err == nil {
			s.Stop()
			t.Error("it started")
		} else if !strings.Contains(err.Error(), want) {
			t.Errorf("got %v", err)
		}
	}
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	refused("not a socket")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	refused("another process listens")
	l.Close()
	start(t, o).Stop()
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after the end: %v", err)
	}
}
