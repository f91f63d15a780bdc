package status

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tulle-net/tulle/pkg/keepfile"
)

// Serve answers on a unix socket at path until ctx ends. Only root may connect. It
// runs k, which restores the socket whenever others remove or replace it, and
// retries where it cannot be made. Errors call the path's setting by its name, like
// --status-socket.
func Serve(ctx context.Context, path, setting string, k *keepfile.Keeper, s Source) {
	socket := &socket{setting: named(setting), server: &http.Server{
		Handler:     handler(s),
		ReadTimeout: answerLimit, WriteTimeout: 2 * answerLimit,
		MaxHeaderBytes: 1 << 14,
		BaseContext:    func(net.Listener) context.Context { return ctx },
	}}
	defer socket.close()
	_ = k.Keep(path, socket) // the keeper logs it, and retries
	k.Run(ctx)
}

// socketMode lets only root connect.
const socketMode = fs.ModeSocket | 0o600

// socket owns a listening unix socket and the file that leads to it. It implements
// keepfile.Thing. At most one listener is open, and only a file that leads to it, or
// to a socket without a listener, is ever removed.
type socket struct {
	setting string // the name of the path's setting
	server  *http.Server
	running sync.WaitGroup

	mu   sync.Mutex
	open *listener // nil while there is none
}

// listener is a listening socket, and the file that it made at path.
type listener struct {
	net.Listener
	path string
	file fs.FileInfo
}

// IsRight implements keepfile.Thing.
func (s *socket) IsRight(path string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	info, err := os.Lstat(path)
	return err == nil && s.open.made(info) && info.Mode() == socketMode
}

// made reports whether l is open and made this file.
func (l *listener) made(info fs.FileInfo) bool { return l != nil && os.SameFile(info, l.file) }

// Write implements keepfile.Thing.
func (s *socket) Write(path string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if info, err := os.Lstat(path); err == nil && s.open.made(info) {
		return os.Chmod(path, socketMode.Perm())
	}
	l, err := listen(path, s.setting)
	if err != nil {
		return socketError(path, s.setting, err)
	}
	if s.open != nil {
		s.open.Close() // no path leads to it any more
	}
	s.open = l
	s.running.Go(func() {
		_ = s.server.Serve(l) // it ends when l is closed, or fails
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.open == l {
			s.open = nil
		}
	})
	return nil
}

// close stops answering, and removes the file if it is still ours.
func (s *socket) close() {
	s.mu.Lock()
	if l := s.open; l != nil {
		if info, err := os.Lstat(l.path); err == nil && l.made(info) {
			os.Remove(l.path)
		}
	}
	s.mu.Unlock()
	s.server.Close()
	s.running.Wait()
}

// listen makes a socket at path. It takes the place of one that has no listener, as
// a killed daemon leaves it.
func listen(path, setting string) (*listener, error) {
	folder := filepath.Dir(path)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, err
	}
	// Of two daemons that find the same abandoned socket, one waits here, and then
	// finds the other's.
	unlock, err := lock(folder)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := vacate(path, setting); err != nil {
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false) // the file may be another's by then
	if err := os.Chmod(path, socketMode.Perm()); err != nil {
		l.Close()
		return nil, err
	}
	info, err := os.Lstat(path)
	if err != nil {
		l.Close()
		return nil, err
	}
	return &listener{l, path, info}, nil
}

// vacate removes an abandoned socket at path. Anything else there is an error.
func vacate(path, setting string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("%s is not a socket; remove it, or choose another %s", path, setting)
	}
	conn, err := net.DialTimeout("unix", path, time.Second)
	switch {
	case err == nil:
		conn.Close()
		return fmt.Errorf("another daemon answers at %s; stop it, or choose another %s", path, setting)
	case !errors.Is(err, unix.ECONNREFUSED):
		return fmt.Errorf("%s is another program's: %w; choose another %s", path, err, setting)
	}
	return os.Remove(path)
}

// named returns what errors call the setting of the socket's path.
func named(setting string) string { return cmp.Or(setting, "status socket") }

// lock takes the lock of a folder, without waiting.
func lock(folder string) (unlock func(), err error) {
	f, err := os.Open(folder)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", folder, err)
	}
	return func() { f.Close() }, nil
}

// socketError returns the error of a listener, with the fix.
func socketError(path, setting string, err error) error {
	fix := keepfile.Fix(err, "choose another "+setting)
	if errors.Is(err, unix.EINVAL) {
		fix = "; a socket's path has at most 107 bytes: choose a shorter " + setting
	}
	return fmt.Errorf("listen at %s: %w%s", path, err, fix)
}
