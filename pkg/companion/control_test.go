package companion

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// spec returns that of a program on a folder.
func spec(dir string) Spec {
	return Spec{
		Program: "tulle-test", Unit: "tulle-test.service", Dir: dir, By: "--own",
		Settings: SettingsOf(map[string]string{"dir": dir}), Arguments: []string{"--dir=" + dir}, Environment: "TULLE_TEST_DIR=\"" + dir + "\"\n",
	}
}

func claim(t *testing.T, s Spec) *Control {
	t.Helper()
	c, err := Claim(s, "v1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func follow(t *testing.T, dir string) (*Client, Process) {
	t.Helper()
	c, p, err := Dial(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c, p
}

func (c *Client) want(t *testing.T, state State, problem string) {
	t.Helper()
	p, err := c.Next()
	if err != nil || p.State != state || p.Problem != problem {
		t.Errorf("%+v, %v, and wanted %s", p, err, state)
	}
}

// A client learns of every state, and of the end; the last state comes before it.
func TestClientFollowsTheProcess(t *testing.T) {
	s := spec(filepath.Join(t.TempDir(), "etcd"))
	c := claim(t, s)
	client, p := follow(t, s.Dir)
	if p.Version != "v1.2.3" || p.PID != os.Getpid() || p.Settings != s.Settings || p.State != Starting || time.Since(p.Started) > time.Hour {
		t.Errorf("%+v", p)
	}
	c.Set(Running, "")
	client.want(t, Running, "")
	late, p := follow(t, s.Dir)
	if p.State != Running {
		t.Errorf("%+v", p)
	}
	c.Set(Stopping, "")
	c.Close()
	for _, client := range []*Client{client, late} {
		client.want(t, Stopping, "")
		if p, err := client.Next(); !errors.Is(err, io.EOF) {
			t.Errorf("%+v, %v", p, err)
		}
	}
	if _, _, err := Dial(t.Context(), s.Dir); !errors.Is(err, ErrNone) {
		t.Errorf("after the end: %v", err)
	}
}

// The program forgets a client that has disconnected, before its state changes.
func TestDisconnectedClientIsForgotten(t *testing.T) {
	s := spec(filepath.Join(t.TempDir(), "etcd"))
	claim(t, s)
	for _, request := range []string{"", stopWord} {
		conn, err := net.Dial("unix", filepath.Join(s.Dir, socketName))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, request); err != nil {
			t.Fatal(err)
		}
		if err := conn.(*net.UnixConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(conn); err != nil {
			t.Errorf("after %q, the program keeps the connection: %v", request, err)
		}
	}
}

func TestFailureIsHeard(t *testing.T) {
	s := spec(t.TempDir())
	c := claim(t, s)
	c.Set(Failed, "the disk is full")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	c.AwaitHeard(ended)
	if _, p := follow(t, s.Dir); p.State != Failed || p.Problem != "the disk is full" {
		t.Errorf("%+v", p)
	}
	c.AwaitHeard(t.Context())
}

func TestStopWaitsForTheEnd(t *testing.T) {
	s := spec(t.TempDir())
	c := claim(t, s)
	go func() {
		<-c.Asked()
		c.Set(Stopping, "")
		c.Close()
	}()
	if p, err := Stop(t.Context(), s.Dir); err != nil || p.PID != os.Getpid() {
		t.Errorf("%+v, %v", p, err)
	}
	if _, err := Stop(t.Context(), s.Dir); !errors.Is(err, ErrNone) {
		t.Errorf("a second time: %v", err)
	}
}

// A process that does not end is named.
func TestStopGivesUp(t *testing.T) {
	s := spec(t.TempDir())
	c := claim(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-c.Asked()
		cancel()
	}()
	if _, err := Stop(ctx, s.Dir); err == nil || !strings.Contains(err.Error(), "has not ended") {
		t.Errorf("got %v", err)
	}
}

// Nothing but the word asks for the end.
func TestRubbishStopsNothing(t *testing.T) {
	s := spec(t.TempDir())
	c := claim(t, s)
	for _, say := range []string{"", "stop", "stop it\n", strings.Repeat("x", 1<<20), "\n"} {
		client, _ := follow(t, s.Dir)
		_, _ = io.WriteString(client.conn, say) // it may hang up
		if err := client.conn.(*net.UnixConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
	}
	c.Set(Running, "")
	if _, p := follow(t, s.Dir); p.State != Running {
		t.Errorf("%+v", p)
	}
	select {
	case <-c.Asked():
		t.Error("it was asked to stop")
	default:
	}
}

func TestFolderHasOneProcess(t *testing.T) {
	s := spec(t.TempDir())
	c := claim(t, s)
	if other, err := Claim(s, "v2"); err == nil {
		other.Close()
		t.Error("two hold the folder")
	} else if !strings.Contains(err.Error(), "another tulle-test uses "+s.Dir) {
		t.Errorf("got %v", err)
	}
	if _, p := follow(t, s.Dir); p.Version != "v1.2.3" {
		t.Errorf("the second took the socket: %+v", p)
	}
	c.Close()
	claim(t, s)
}

// A crash leaves the socket behind, which is no obstacle.
func TestClaimAfterACrash(t *testing.T) {
	s := spec(t.TempDir())
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(s.Dir, socketName)})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	if _, _, err := Dial(t.Context(), s.Dir); !errors.Is(err, ErrNone) {
		t.Errorf("got %v", err)
	}
	claim(t, s)
	follow(t, s.Dir)
}

func TestFolderIsForOneUser(t *testing.T) {
	s := spec(filepath.Join(t.TempDir(), "etcd"))
	if err := os.Mkdir(s.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	claim(t, s)
	if info, err := os.Stat(s.Dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

func TestClaimRefuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	linked := t.TempDir()
	if err := os.Symlink(file, filepath.Join(linked, lockName)); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]string{
		filepath.Join(t.TempDir(), strings.Repeat("d", 110)): "choose a shorter one",
		file:   file,
		linked: "lock the folder of tulle-test",
	} {
		if c, err := Claim(spec(dir), ""); err == nil {
			c.Close()
			t.Errorf("%s was not refused", dir)
		} else if !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", dir, err)
		}
	}
}

// A process that hangs is reported, not waited for.
func TestDialGivesUp(t *testing.T) {
	dir := t.TempDir()
	l, err := net.Listen("unix", filepath.Join(dir, socketName))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, _, err := Dial(ctx, dir); err == nil || !strings.Contains(err.Error(), "does not answer") {
		t.Errorf("got %v", err)
	}
}

// TestSettingsStayComparable checks that settings are the same text after they were sent.
func TestSettingsStayComparable(t *testing.T) {
	s := spec(t.TempDir())
	s.Settings = SettingsOf(struct{ A, B string }{"<&>", "\"\n"})
	claim(t, s)
	if _, p := follow(t, s.Dir); p.Settings != s.Settings {
		t.Errorf("%s became %s", s.Settings, p.Settings)
	}
	if a, b := SettingsOf(1), SettingsOf(2); a == b {
		t.Errorf("%s is %s", a, b)
	}
}
