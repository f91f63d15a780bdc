package companion

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Process is what a running program reports of itself.
type Process struct {
	Version  string    `json:"version"`
	PID      int       `json:"pid"`
	Started  time.Time `json:"started"`
	Settings Settings  `json:"settings"`
	State    State     `json:"state"`
	Problem  string    `json:"problem,omitempty"` // why it failed
}

// State is the part of its life that a program is in.
type State string

// The states. Failed and Stopping are the last ones; a process that ends in another
// has crashed.
const (
	Starting State = "starting"
	Running  State = "running"
	Stopping State = "stopping" // as a signal or a client asked
	Failed   State = "failed"
)

const (
	lockName   = "lock"
	socketName = "control"
	// longestSocket is the longest path of a socket that the kernel accepts.
	longestSocket = 107
	// stopWord is what a client writes to end the process.
	stopWord = "stop\n"
)

// Control is how a program claims its folder and answers there. Only root can
// open the folder, so only root can ask.
type Control struct {
	lock     *os.File
	listener net.Listener
	stop     chan struct{} // closed when a client asks to stop
	asked    sync.Once
	heard    chan struct{} // closed when a client has received a failure
	once     sync.Once
	serving  sync.WaitGroup

	mu      sync.Mutex
	process Process
	changed chan struct{} // closed when process changes
	closed  bool
}

// Claim makes the folder, which one process at a time can hold, and answers on
// its socket until Close.
func Claim(s Spec, version string) (*Control, error) {
	if n := len(filepath.Join(s.Dir, socketName)) - longestSocket; n > 0 {
		return nil, fmt.Errorf("folder %s of %s: its path is %d bytes too long for a socket; choose a shorter one", s.Dir, s.Program, n)
	}
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of %s: %w", s.Program, err)
	}
	if err := os.Chmod(s.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("protect the folder of %s: %w", s.Program, err)
	}
	lock, err := lockFolder(s)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(s.Dir, socketName)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		lock.Close()
		return nil, err
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		lock.Close()
		return nil, err
	}
	c := &Control{
		lock: lock, listener: l, stop: make(chan struct{}),
		process: Process{Version: version, PID: os.Getpid(), Started: time.Now(), Settings: s.Settings, State: Starting},
		changed: make(chan struct{}), heard: make(chan struct{}),
	}
	c.serving.Go(c.accept)
	return c, nil
}

// lockFolder locks the folder for as long as the returned file is open.
func lockFolder(s Spec) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(s.Dir, lockName), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the folder of %s: %w", s.Program, err)
	}
	switch err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
	case errors.Is(err, syscall.EWOULDBLOCK):
		f.Close()
		return nil, fmt.Errorf("another %s uses %s; stop it with: %s", s.Program, s.Dir, s.Stop())
	case err != nil:
		f.Close()
		return nil, fmt.Errorf("lock the folder %s of %s: %w", s.Dir, s.Program, err)
	}
	return f, nil
}

// Asked is closed when a client has asked the process to stop.
func (c *Control) Asked() <-chan struct{} { return c.stop }

// Set sends a state to all clients.
func (c *Control) Set(state State, problem string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.process.State, c.process.Problem = state, problem
	close(c.changed)
	c.changed = make(chan struct{})
}

// Process returns what clients receive.
func (c *Control) Process() Process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.process
}

// AwaitHeard waits until a client has received a failure, or until ctx ends. So the
// daemon that started this process learns why it failed.
func (c *Control) AwaitHeard(ctx context.Context) {
	select {
	case <-c.heard:
	case <-ctx.Done():
	}
}

// Close releases the folder, and then disconnects the clients. It removes the socket
// before the lock: the next process makes its own once it has the lock.
func (c *Control) Close() {
	c.listener.Close()
	c.lock.Close()
	c.mu.Lock()
	c.closed = true
	close(c.changed)
	c.changed = make(chan struct{})
	c.mu.Unlock()
	c.serving.Wait()
}

func (c *Control) accept() {
	for {
		conn, err := c.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			<-time.After(10 * time.Millisecond) // out of file descriptors
			continue
		}
		gone := make(chan struct{})
		c.serving.Go(func() { c.send(conn, gone) })
		go func() {
			defer close(gone)
			c.listen(conn)
		}()
	}
}

// writeLimit is how long a client may take to read a line.
const writeLimit = time.Second

// send writes a line to a client for each state, including the last, until the client is gone.
func (c *Control) send(conn net.Conn, gone <-chan struct{}) {
	defer conn.Close()
	for sent := (Process{}); ; {
		c.mu.Lock()
		process, changed, closed := c.process, c.changed, c.closed
		c.mu.Unlock()
		if process != sent {
			if err := conn.SetWriteDeadline(time.Now().Add(writeLimit)); err != nil {
				return
			}
			if err := json.NewEncoder(conn).Encode(process); err != nil {
				return
			}
			sent = process
		}
		if process.State == Failed {
			c.once.Do(func() { close(c.heard) })
		}
		if closed {
			return
		}
		select {
		case <-changed:
		case <-gone:
			return
		}
	}
}

// listen reads the client's request, and returns when the client has disconnected or has sent
// anything else.
func (c *Control) listen(conn net.Conn) {
	line, _ := bufio.NewReader(io.LimitReader(conn, int64(len(stopWord)))).ReadString('\n')
	if line == stopWord {
		c.asked.Do(func() { close(c.stop) })
		_, _ = conn.Read(make([]byte, 1))
	}
}

// ErrNone means that no program runs on a folder.
var ErrNone = errors.New("no program runs there")

// Client follows a running program.
type Client struct {
	conn net.Conn
	in   *json.Decoder
}

// answerLimit is how long a running program may take for its first line.
const answerLimit = 5 * time.Second

// Dial connects to the program that holds a folder, and returns its first report.
func Dial(ctx context.Context, dir string) (*Client, Process, error) {
	var d net.Dialer
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	conn, err := d.DialContext(ctx, "unix", filepath.Join(dir, socketName))
	switch {
	case errors.Is(err, os.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return nil, Process{}, ErrNone
	case err != nil:
		return nil, Process{}, fmt.Errorf("reach the program of %s: %w", dir, err)
	}
	c := &Client{conn, json.NewDecoder(conn)}
	defer context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Now()) })()
	p, err := c.Next()
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		conn.Close()
		return nil, Process{}, ErrNone // it has just ended
	case err != nil:
		conn.Close()
		return nil, Process{}, fmt.Errorf("the program of %s does not answer: %w", dir, err)
	}
	return c, p, nil
}

// Next waits for the next state, or for the end of the process, which is io.EOF.
func (c *Client) Next() (Process, error) {
	var p Process
	err := c.in.Decode(&p)
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) {
		err = io.EOF
	}
	return p, err
}

// AskToStop asks the process to stop. Next returns io.EOF when it has.
func (c *Client) AskToStop() error {
	_, err := io.Copy(c.conn, strings.NewReader(stopWord))
	return err
}

// Close closes the connection; the process goes on.
func (c *Client) Close() { c.conn.Close() }

// Stop stops the program that holds a folder, and waits until it has ended.
func Stop(ctx context.Context, dir string) (Process, error) {
	c, p, err := Dial(ctx, dir)
	if err != nil {
		return p, err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { _ = c.conn.SetReadDeadline(time.Now()) })()
	if err := c.AskToStop(); err != nil {
		return p, fmt.Errorf("ask the program of %s to stop: %w", dir, err)
	}
	for {
		if _, err := c.Next(); errors.Is(err, io.EOF) {
			return p, nil
		} else if err != nil {
			return p, fmt.Errorf("the program of %s, process %d, has not ended: %w", dir, p.PID, ctx.Err())
		}
	}
}
