package e2e

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/companion"
	"github.com/tulle-net/tulle/pkg/status"
	"github.com/tulle-net/tulle/pkg/test/certtest"
	"github.com/tulle-net/tulle/pkg/test/clustertest"
	"github.com/tulle-net/tulle/subnet"
)

// embedded is a world whose first host runs the etcd, in a process that its daemon
// starts.
type embedded struct {
	*world
	first        *clustertest.Host
	port         int
	certificates []string
	state        string // of the first host, whose disk is too small for an etcd
}

func newEmbedded(t *testing.T, hosts int) *embedded {
	t.Helper()
	c := clustertest.New(t, clustertest.Options{Hosts: hosts})
	w := &world{Cluster: c, t: t, daemons: make(map[*clustertest.Host]*clustertest.Daemon)}
	e := &embedded{world: w, first: w.Hosts[0], port: 2379, state: stateDir(t)}
	files := certtest.NewFiles(t)
	certtest.New(t).Write(files, e.first.Addr[subnet.IPv4], time.Hour)
	e.certificates = []string{"--etcd-cafile=" + files.CA, "--etcd-certfile=" + files.Cert, "--etcd-keyfile=" + files.Key}
	return e
}

// stateDir creates the folder of a daemon with an etcd. The folder is removed when the
// test ends.
func stateDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if _, err := companion.Stop(ctx, filepath.Join(dir, "etcd")); err != nil && err != companion.ErrNone {
			t.Error(err)
		}
		if t.Failed() {
			log, err := os.ReadFile(filepath.Join(dir, "etcd/log"))
			t.Logf("tulle-etcd wrote, %v:\n%s", err, log)
		}
	})
	return dir
}

func (e *embedded) endpoint() string {
	return fmt.Sprintf("https://%s:%d", e.first.Addr[subnet.IPv4], e.port)
}

// begin starts a host's daemon. network is the config to write if the store is empty.
func (e *embedded) begin(h *clustertest.Host, network string) *clustertest.Daemon {
	e.t.Helper()
	flags := append([]string{"--node-id=" + h.Name, "--subnet-file=" + h.SubnetFile}, e.certificates...)
	if h == e.first {
		flags = append(flags, "--state-dir="+e.state, "--etcd-embedded", "--etcd-listen="+e.endpoint(), "--network="+network)
	} else {
		flags = append(flags, "--state-dir="+h.StateDir, "--etcd-endpoints="+e.endpoint())
	}
	e.daemons[h] = h.Start(tulled, flags...)
	return e.daemons[h]
}

// process waits until ok accepts what the first host's daemon reports of its etcd.
func (e *embedded) process(what string, ok func(status.Etcd) bool) (found status.Etcd) {
	e.t.Helper()
	e.eventually(func() error {
		var r status.Report
		if err := e.commandJSON(e.first, &r, "status"); err != nil {
			return err
		}
		if r.Store.Etcd == nil || !ok(*r.Store.Etcd) {
			return fmt.Errorf("etcd is not %s: %+v", what, r.Store.Etcd)
		}
		found = *r.Store.Etcd
		return nil
	})
	return found
}

func runs(p status.Etcd) bool { return p.State == string(companion.Running) && p.Problem == "" }

// subnets returns the hosts' own subnets.
func (e *embedded) subnets() map[string]string {
	keys := map[string]string{}
	for _, h := range e.Hosts {
		keys[h.Name] = e.key(h)
	}
	return keys
}

// TestEmbeddedEtcdOutlivesItsDaemon runs a network whose only etcd is on the first
// host. The other hosts reach it over TLS. It keeps running when its daemon crashes and
// restarts, so the others are not affected.
func TestEmbeddedEtcdOutlivesItsDaemon(t *testing.T) {
	t.Parallel()
	e := newEmbedded(t, 3)
	const network = "10.5.0.0/16,fd00:5::/48"
	// The first host starts last, so the others wait for it.
	for _, h := range []*clustertest.Host{e.Hosts[2], e.Hosts[1], e.first} {
		e.begin(h, network)
	}
	for _, h := range e.Hosts {
		h.AddPod()
	}
	e.Matrix()
	keys, before := e.subnets(), e.process("running", runs)
	list := e.first.NS.Command(append([]string{tulled.Argv[0], "leases", "--etcd-endpoints=" + e.endpoint()}, e.certificates...)...)
	out, err := list.CombinedOutput()
	if err != nil || strings.Count(string(out), " vxlan ") != len(e.Hosts) {
		t.Errorf("tulled leases: %v: %s", err, out)
	}

	other := e.daemons[e.Hosts[1]]
	so := len(other.Log())
	pings := e.pings(e.Hosts[1], e.Hosts[2])
	e.daemons[e.first].Kill()
	again := e.begin(e.first, "10.77.0.0/16") // only the first start writes the config
	again.WaitLog("Kernel in sync with all peers")
	again.WaitLog("Ignoring flags for an empty etcd; it already has another config")
	e.process("another network's", func(p status.Etcd) bool {
		return len(p.Ignored) == 1 && strings.HasSuffix(p.Ignored[0], "=10.77.0.0/16")
	})
	if code := e.daemons[e.first].Stop(); code != 0 {
		t.Errorf("SIGTERM ended the daemon with %d", code)
	}
	e.begin(e.first, network).WaitLog("Kernel in sync with all peers")
	pings.more(20)
	pings.wantLost(0)
	if after := e.process("running", runs); after.PID != before.PID {
		t.Errorf("etcd was process %d and is %d", before.PID, after.PID)
	}
	if now := e.subnets(); !maps.Equal(now, keys) {
		t.Errorf("the subnets were %v and are %v", keys, now)
	}
	for line := range strings.Lines(other.Log()[so:]) {
		if !strings.Contains(line, "Probes of ") { // a busy machine answers probes late
			t.Errorf("a restart of the first daemon affected another host: %s", line)
		}
	}
}

// TestEmbeddedEtcdComesBack ends the etcd process in every way: it is killed, stopped
// with its command, and given other settings.
func TestEmbeddedEtcdComesBack(t *testing.T) {
	t.Parallel()
	e := newEmbedded(t, 2)
	const network = "10.5.0.0/16"
	for _, h := range e.Hosts {
		e.begin(h, network).WaitLog("Kernel in sync with all peers")
	}
	keys := e.subnets()
	other := e.daemons[e.Hosts[1]]

	crashed := e.process("running", runs)
	if err := syscall.Kill(crashed.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	second := e.process("another process", func(p status.Etcd) bool { return runs(p) && p.PID != crashed.PID })
	e.daemons[e.first].WaitLog("tulle-etcd ended unexpectedly; see " + e.state + "/etcd/log")

	// After tulle-etcd stop, the daemon does not start it again.
	stop := e.first.NS.Command(filepath.Join(filepath.Dir(tulled.Argv[0]), "tulle-etcd"), "stop", "--data-dir="+e.state+"/etcd")
	if out, err := stop.CombinedOutput(); err != nil || !strings.Contains(string(out), fmt.Sprint(second.PID)) {
		t.Errorf("tulle-etcd stop: %v: %s", err, out)
	}
	e.process("stopped", func(p status.Etcd) bool { return p.State == "not running" && p.Problem == "it was stopped" })
	if out, _ := e.command(e.first, "status"); !strings.Contains(out, "tulle-etcd:  not running, it was stopped") {
		t.Errorf("status: %s", out)
	}

	// The next start of the daemon starts it again, and the one after that on another port.
	if code := e.daemons[e.first].Stop(); code != 0 {
		t.Errorf("SIGTERM ended the daemon with %d", code)
	}
	third := e.begin(e.first, network)
	running := e.process("running", runs)
	third.Kill()
	e.port++
	e.begin(e.first, network).WaitLog("Kernel in sync with all peers")
	e.process("another process", func(p status.Etcd) bool { return runs(p) && p.PID != running.PID })
	e.daemons[e.first].WaitLog(`"Restarting program with changed settings" program="tulle-etcd"`)
	other.Kill()
	e.begin(e.Hosts[1], "").WaitLog("Kernel in sync with all peers")
	if again := e.subnets(); !maps.Equal(again, keys) {
		t.Errorf("the subnets were %v and are %v", keys, again)
	}
}

// TestEmbeddedWithoutTheProgram installs tulled alone, and later tulle-etcd.
func TestEmbeddedWithoutTheProgram(t *testing.T) {
	t.Parallel()
	e := newEmbedded(t, 1)
	dir := t.TempDir()
	link := func(name string) {
		t.Helper()
		if err := os.Link(filepath.Join(filepath.Dir(tulled.Argv[0]), name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	link("tulled")
	alone := e.first.Start(clustertest.Command{Argv: []string{filepath.Join(dir, "tulled")}}, append([]string{
		"--node-id=one", "--subnet-file=" + e.first.SubnetFile, "--state-dir=" + e.state,
		"--etcd-embedded", "--etcd-listen=" + e.endpoint(), "--network=10.5.0.0/16",
	}, e.certificates...)...)
	e.daemons[e.first] = alone
	alone.WaitLog("there is no " + dir + "/tulle-etcd, which --etcd-embedded needs; install that program there")
	e.process("missing", func(p status.Etcd) bool { return strings.Contains(p.Problem, "install that program") })
	link("tulle-etcd")
	alone.WaitLog(`"Reconnected to program" program="tulle-etcd"`)
	alone.WaitLog("Wrote the first network config")
	alone.WaitLog("Kernel in sync with all peers")
}
