package etcdtest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
)

// Member is one etcd of a cluster. Its methods are for one goroutine.
type Member struct {
	cluster *Cluster
	config  config
	process *process // nil while it does not run
	frozen  bool
}

// process is a running etcd.
type process struct {
	cmd   *exec.Cmd
	said  bytes.Buffer
	ended chan struct{} // closed when it is over
	err   error         // of its end
}

// Endpoint is its URL for clients.
func (m *Member) Endpoint() string { return m.config.Client }

// Kill ends it with SIGKILL.
func (m *Member) Kill() { m.end(syscall.SIGKILL) }

// Stop ends it with SIGTERM, as an init system does.
func (m *Member) Stop() { m.end(syscall.SIGTERM) }

// Freeze has it do nothing until Thaw. Its kernel still takes connections.
func (m *Member) Freeze() {
	m.cluster.t.Helper()
	m.signal(syscall.SIGSTOP)
	m.frozen = true
	kerneltest.AwaitStopped(m.cluster.t, m.process.cmd.Process.Pid)
}

// Thaw ends Freeze.
func (m *Member) Thaw() { m.signal(syscall.SIGCONT); m.frozen = false }

// Restart runs it on the data that it left, which ends it first if it runs. It
// waits until it answers, unless too few members run for that.
func (m *Member) Restart() {
	m.cluster.t.Helper()
	m.Stop()
	m.start()
	up := 0
	for _, other := range m.cluster.members {
		if other.process != nil && !other.frozen {
			up++
		}
	}
	if 2*up > len(m.cluster.members) {
		m.await()
	}
}

func (m *Member) signal(s syscall.Signal) {
	m.cluster.t.Helper()
	if m.process == nil {
		m.cluster.t.Fatalf("%s does not run", m.config.Name)
	}
	if err := m.process.cmd.Process.Signal(s); err != nil {
		m.cluster.t.Fatalf("%v to %s: %v", s, m.config.Name, err)
	}
}

// end ends it, if it runs, and waits for that.
func (m *Member) end(by syscall.Signal) {
	m.cluster.t.Helper()
	p := m.process
	if p == nil {
		return
	}
	_ = p.cmd.Process.Signal(by) // if it is gone already, that is told below
	_ = p.cmd.Process.Signal(syscall.SIGCONT)
	<-p.ended
	m.process, m.frozen = nil, false
	status, killed := p.cmd.ProcessState.Sys().(syscall.WaitStatus), by == syscall.SIGKILL
	if status.Signaled() != killed || status.ExitStatus() > 0 {
		m.cluster.t.Errorf("%s ended with %v\n%s", m.config.Name, p.err, &p.said)
	}
}

func (m *Member) start() {
	m.cluster.t.Helper()
	p, err := m.launch()
	if err != nil {
		m.cluster.t.Fatalf("start %s: %v", m.config.Name, err)
	}
	m.process = p
}

func (m *Member) launch() (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(m.config)
	if err != nil {
		return nil, err
	}
	args := []string{self}
	if ns := m.cluster.options.Namespace; ns != "" {
		// It becomes the server: there is one process, with one id.
		args = append([]string{"ip", "netns", "exec", ns}, args...)
	}
	p := &process{cmd: exec.Command(args[0], args[1:]...), ended: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), variable+"="+string(text), "GORACE=atexit_sleep_ms=0")
	p.cmd.Stdout, p.cmd.Stderr = &p.said, &p.said
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() {
		// What the kernel has the server die with is this thread.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			p.err = p.cmd.Wait()
			close(p.ended)
		}
	}()
	return p, <-started
}

// await waits until it answers, and knows a leader.
func (m *Member) await() {
	m.cluster.t.Helper()
	p := m.process
	m.cluster.eventually(m.config.Name+" answers", func() bool {
		select {
		case <-p.ended:
			m.process = nil
			m.cluster.t.Fatalf("%s ended: %v\n%s", m.config.Name, p.err, &p.said)
		default:
		}
		s, err := m.status()
		return err == nil && s.Leader != 0
	})
}

// status is what it says of itself.
func (m *Member) status() (*clientv3.StatusResponse, error) {
	if m.process == nil || m.frozen {
		return nil, fmt.Errorf("%s does not run", m.config.Name)
	}
	client, err := m.cluster.dial(m.config.Client)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return client.Status(ctx, m.config.Client)
}
