package e2e

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tulle-net/tulle/pkg/envfile"
	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/test/clustertest"
	"github.com/tulle-net/tulle/pkg/test/etcdtest"
	"github.com/tulle-net/tulle/pkg/test/traffictest"
	"github.com/tulle-net/tulle/subnet"
)

const module = "github.com/tulle-net/tulle"

// tulled is the daemon under test: this tree's, built with the race detector. The
// programs tulle-etcd and tulle-wireguard are beside it.
var tulled clustertest.Command

func TestMain(m *testing.M) {
	etcdtest.Main()
	traffictest.Main()
	// Parallel tests mostly wait: for daemons that notice a fault, and for leases that end. So
	// more of them run at once than there are processors. -parallel says otherwise.
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "tulle-e2e")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	for name, source := range map[string]string{"tulled": module, "tulle-etcd": module + "/pkg/cmd/tulle-etcd", "tulle-wireguard": module + "/pkg/cmd/tulle-wireguard"} {
		if out, err := exec.Command("go", "build", "-race", "-o", filepath.Join(dir, name), source).CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "build %s: %v: %s", name, err, out)
			return 1
		}
	}
	tulled = clustertest.Command{Argv: []string{filepath.Join(dir, "tulled")}}
	return m.Run()
}

const (
	prefix    = "/coreos.com/network"
	configKey = prefix + "/config"
	leasesKey = prefix + "/subnets/"

	dualConfig = `{"Network": "10.5.0.0/16", "EnableIPv6": true, "IPv6Network": "fd00:5::/48", "Backend": {"Type": "vxlan"}}`
	vxlan      = `{"Network": "10.5.0.0/16"}`
)

// patience is the time limit of a wait. It is generous, since no test measures how long
// something takes.
const patience = time.Minute

// world is a cluster with an etcd.
type world struct {
	*clustertest.Cluster
	t       *testing.T
	etcd    *etcdtest.Cluster
	client  *clientv3.Client
	daemons map[*clustertest.Host]*clustertest.Daemon
}

// newWorld creates hosts and an etcd with so many members. An empty config means that
// etcd has none.
func newWorld(t *testing.T, hosts, members int, config string) *world {
	t.Helper()
	c := clustertest.New(t, clustertest.Options{Hosts: hosts, StaticNeighbours: hosts > 10})
	o := etcdtest.Options{Members: members, Namespace: c.EtcdHost().NS.Name, Addresses: clustertest.EtcdAddrs(members)}
	w := &world{Cluster: c, t: t, etcd: etcdtest.Start(t, o), daemons: make(map[*clustertest.Host]*clustertest.Daemon)}
	w.client = w.etcd.Client(t)
	if config != "" {
		w.put(configKey, config)
	}
	return w
}

// newNetwork returns a world with a daemon and a pod on every host. All of them reach
// one another.
func newNetwork(t *testing.T, hosts, members int, config string) *world {
	t.Helper()
	w := newWorld(t, hosts, members, config)
	for _, h := range w.Hosts {
		w.start(h)
	}
	for _, h := range w.Hosts {
		h.AddPod()
	}
	w.Matrix()
	return w
}

// start runs tulled on a host.
func (w *world) start(h *clustertest.Host, flags ...string) *clustertest.Daemon {
	w.t.Helper()
	d := h.Start(tulled, w.flags(h, flags...)...)
	w.daemons[h] = d
	return d
}

// flags returns the flags of a daemon on a host, followed by more.
func (w *world) flags(h *clustertest.Host, more ...string) []string {
	return append([]string{
		"--etcd-endpoints=" + strings.Join(w.etcd.Endpoints(), ","),
		"--node-id=" + h.Name, "--subnet-file=" + h.SubnetFile, "--state-dir=" + h.StateDir, "--cni-conf-file=" + h.CNIConfFile,
	}, more...)
}

// restart starts a daemon that has ended, and waits until its kernel is in sync.
func (w *world) restart(h *clustertest.Host, flags ...string) {
	w.t.Helper()
	w.start(h, flags...).WaitLog("Kernel in sync with all peers")
}

// ask sends a request to etcd, and sends it again if a member takes too long, because
// another member may answer.
func (w *world) ask(f func(context.Context) error) {
	w.t.Helper()
	w.eventually(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		return f(ctx)
	})
}

func (w *world) put(key, value string, options ...clientv3.OpOption) {
	w.t.Helper()
	w.ask(func(ctx context.Context) error {
		_, err := w.client.Put(ctx, key, value, options...)
		return err
	})
}

// lend puts a key on an etcd lease of its own, as a living node does.
func (w *world) lend(key, value string) {
	w.t.Helper()
	w.ask(func(ctx context.Context) error {
		r, err := w.client.Grant(ctx, 86400)
		if err != nil {
			return err
		}
		_, err = w.client.Put(ctx, key, value, clientv3.WithLease(r.ID))
		return err
	})
}

func (w *world) delete(key string, options ...clientv3.OpOption) {
	w.t.Helper()
	w.ask(func(ctx context.Context) error {
		_, err := w.client.Delete(ctx, key, options...)
		return err
	})
}

// leases returns the keys and values of all leases in etcd.
func (w *world) leases() map[string]string {
	w.t.Helper()
	leases, err := w.readLeases()
	if err != nil {
		w.t.Fatal(err)
	}
	return leases
}

func (w *world) readLeases() (map[string]string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	r, err := w.client.Get(ctx, leasesKey, clientv3.WithPrefix())
	if err != nil {
		return nil, err
	}
	leases := make(map[string]string)
	for _, kv := range r.Kvs {
		leases[strings.TrimPrefix(string(kv.Key), leasesKey)] = string(kv.Value)
	}
	return leases, nil
}

// subnetsOf returns the subnets in a host's env file.
func subnetsOf(h *clustertest.Host) (subnet.Pair[netip.Prefix], error) {
	env, err := envfile.Read(h.SubnetFile)
	for f, s := range env.Subnets {
		env.Subnets[f] = s.Masked()
	}
	return env.Subnets, err
}

// key returns the key of a host's lease, from its env file. A new daemon programs the
// kernel before it writes the file.
func (w *world) key(h *clustertest.Host) (key string) {
	w.t.Helper()
	w.eventually(func() error {
		subnets, err := subnetsOf(h)
		key = subnet.FormatKey(subnets)
		return err
	})
	return key
}

// eventually waits until f returns no error.
func (w *world) eventually(f func() error) {
	w.t.Helper()
	kerneltest.Eventually(w.t, patience, f)
}

// kernels logs the contents of all hosts' kernels.
func (w *world) kernels() string {
	var b bytes.Buffer
	for _, h := range w.Hosts {
		fmt.Fprintf(&b, "# %s\n%s\n", h.Name, h.Kernel())
	}
	return b.String()
}

// streams are pings from the first pod to the second in every family.
type streams struct {
	w    *world
	each []*clustertest.Stream
}

func (w *world) pings(from, to *clustertest.Host) *streams {
	s := &streams{w: w}
	for f, a := range from.Pods[0].Addr {
		if a.IsValid() {
			s.each = append(s.each, w.Ping(from.Pods[0], to.Pods[0], subnet.Family(f)))
		}
	}
	return s
}

// more waits until each stream has sent n more requests, so that the streams keep pace.
func (s *streams) more(n int) {
	s.w.t.Helper()
	if !s.each[0].WaitSent(n) {
		s.w.t.Fatal("the pings have stopped")
	}
}

// wantLost ends the streams. Each may have lost n requests at most.
func (s *streams) wantLost(most int) {
	s.w.t.Helper()
	for _, each := range s.each {
		r := each.Stop()
		s.w.t.Logf("pings: %s", r)
		if r.Lost > most {
			s.w.t.Errorf("%d requests were lost, more than %d: %s", r.Lost, most, r)
		}
	}
}

// wantAnswered ends the streams, whose packets a program carries and not the kernel.
// Each request must have an answer, even a late one: the program shares the processors
// with the tests.
func (s *streams) wantAnswered() {
	s.w.t.Helper()
	for _, each := range s.each {
		r := each.StopPatiently()
		s.w.t.Logf("pings: %s", r)
		if r.Lost > r.Late {
			s.w.t.Errorf("%d requests were never answered: %s", r.Lost-r.Late, r)
		}
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}
