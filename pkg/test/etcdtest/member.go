package etcdtest

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
)

// Member is one etcd of a cluster. Its methods are for one goroutine.
type Member struct {
	cluster *Cluster
	config  config
	process *kerneltest.Process // nil while it does not run
	frozen  bool
}

// Endpoint returns the member's URL for clients.
func (m *Member) Endpoint() string { return m.config.Client }

// Spent returns the processor time that the running member has used.
func (m *Member) Spent() time.Duration {
	m.cluster.t.Helper()
	return m.running().Spent()
}

// Kill ends the member with SIGKILL.
func (m *Member) Kill() { m.end(syscall.SIGKILL) }

// Stop ends the member with SIGTERM, as an init system does.
func (m *Member) Stop() { m.end(syscall.SIGTERM) }

// Freeze stops the member until Thaw. Its kernel still accepts connections.
func (m *Member) Freeze() {
	m.cluster.t.Helper()
	m.running().Freeze()
	m.frozen = true
}

// Thaw undoes Freeze.
func (m *Member) Thaw() {
	m.cluster.t.Helper()
	m.running().Thaw()
	m.frozen = false
}

// Restart runs the member on its earlier data. If it still runs, Restart ends it first.
// It waits until the member answers, unless too few members run for that.
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

func (m *Member) running() *kerneltest.Process {
	m.cluster.t.Helper()
	if m.process == nil {
		m.cluster.t.Fatalf("%s does not run", m.config.Name)
	}
	return m.process
}

// end ends the member, if it runs, and waits for its end.
func (m *Member) end(by syscall.Signal) {
	m.cluster.t.Helper()
	p := m.process
	if p == nil {
		return
	}
	state := p.End(by)
	m.process, m.frozen = nil, false
	// Etcd's own program stops cleanly, and then ends by the signal that it received.
	status, signaled := state.Sys().(syscall.WaitStatus), by == syscall.SIGKILL || m.cluster.options.Program != ""
	if status.Signaled() != signaled || status.ExitStatus() > 0 {
		m.cluster.t.Errorf("%s ended with %v\n%s", m.config.Name, state, p.Said())
	}
}

func (m *Member) start() {
	m.cluster.t.Helper()
	if program := m.cluster.options.Program; program != "" {
		m.process = kerneltest.Launch(m.cluster.t, m.cluster.options.Namespace, nil, append([]string{program}, m.config.flags()...)...)
		return
	}
	self, err := os.Executable()
	if err != nil {
		m.cluster.t.Fatal(err)
	}
	text, err := json.Marshal(m.config)
	if err != nil {
		m.cluster.t.Fatal(err)
	}
	m.process = kerneltest.Launch(m.cluster.t, m.cluster.options.Namespace, []string{variable + "=" + string(text), "GORACE=atexit_sleep_ms=0"}, self)
}

// flags returns the flags of etcd's own program.
func (c config) flags() []string {
	return []string{
		"--name=" + c.Name, "--data-dir=" + c.Dir, "--initial-cluster=" + c.Cluster,
		"--listen-client-urls=" + c.Client, "--advertise-client-urls=" + c.Client,
		"--listen-peer-urls=" + c.Peer, "--initial-advertise-peer-urls=" + c.Peer,
		"--heartbeat-interval=50", "--election-timeout=500", "--logger=zap", "--log-level=error",
	}
}

// await waits until the member answers and knows a leader.
func (m *Member) await() {
	m.cluster.t.Helper()
	p := m.process
	m.cluster.eventually(m.config.Name+" answers", func() bool {
		if p.Over() {
			m.process = nil
			m.cluster.t.Fatalf("%s ended:\n%s", m.config.Name, p.Said())
		}
		s, err := m.status()
		return err == nil && s.Leader != 0
	})
}

// status returns the status that the member reports.
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
