package e2e

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sys/unix"

	"github.com/tulle-net/tulle/pkg/envfile"
	"github.com/tulle-net/tulle/pkg/test/clustertest"
	"github.com/tulle-net/tulle/subnet"
)

// TestFiftyAtOnce runs fifty nodes that wait for a config, and lease their subnets at
// the same moment when it comes.
func TestFiftyAtOnce(t *testing.T) {
	w := newWorld(t, 50, 1, "")
	t.Log(w.rush(dualConfig))
	leases := w.leases()
	if len(leases) != len(w.Hosts) {
		t.Errorf("%d nodes have %d leases", len(w.Hosts), len(leases))
	}
	distinct(t, leases)
	for _, h := range w.Hosts {
		if leases[w.key(h)] == "" {
			t.Errorf("%s has %s in its env file, and no such lease", h.Name, w.key(h))
		}
		h.Pods = nil
	}
	for _, h := range w.Hosts {
		h.AddPod()
	}
	w.Matrix()
}

// distinct fails the test if two leases overlap.
func distinct(t *testing.T, leases map[string]string) {
	t.Helper()
	seen := make(map[netip.Prefix]string)
	for key := range leases {
		subnets, err := subnet.ParseKey(key)
		if err != nil {
			t.Error(err)
		}
		for _, s := range subnets {
			for other, of := range seen {
				if s.IsValid() && s.Overlaps(other) {
					t.Errorf("%s and %s overlap", key, of)
				}
			}
			seen[s] = key
		}
	}
}

// rush is what was measured after a config reached many nodes that waited for it.
type rush struct {
	nodes int
	// Times since the config was written: until all nodes had a lease, and until every
	// node reached every other.
	leased, meshed time.Duration
	calls          map[string]int // of etcd's methods
	writes         int64          // revisions of etcd
}

func (r rush) String() string {
	text := fmt.Sprintf("%d nodes: all leased after %v, all reached all after %v; etcd wrote %d times; calls, including the test's own:",
		r.nodes, r.leased.Round(time.Millisecond), r.meshed.Round(time.Millisecond), r.writes)
	for _, method := range slices.Sorted(maps.Keys(r.calls)) {
		text += fmt.Sprintf(" %s %d", method, r.calls[method])
	}
	return text
}

// rush starts all daemons, writes the config when they wait for it, and measures what
// follows. Pods would have to be created meanwhile, so the hosts themselves stand for
// them, with the addresses of their tunnel devices.
func (w *world) rush(config string) rush {
	w.t.Helper()
	return w.rushOf(config, func(h *clustertest.Host) { w.start(h) })
}

// rushOf does what rush does, with daemons that start starts.
func (w *world) rushOf(config string, start func(*clustertest.Host)) rush {
	w.t.Helper()
	for _, h := range w.Hosts {
		start(h)
	}
	for _, h := range w.Hosts {
		w.daemons[h].WaitLog("Waiting for the network config")
	}
	r := rush{nodes: len(w.Hosts), calls: w.calls()}
	watching, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	events := w.client.Watch(watching, leasesKey, clientv3.WithPrefix(), clientv3.WithCreatedNotify())
	r.writes = (<-events).Header.Revision
	began := time.Now()
	w.put(configKey, config)
	held := make(map[string]bool)
	for len(held) < len(w.Hosts) {
		e, ok := <-events
		if err := e.Err(); err != nil || !ok {
			w.t.Fatalf("%d of %d nodes have a lease: %v", len(held), len(w.Hosts), err)
		}
		for _, event := range e.Events {
			if event.Type == clientv3.EventTypePut {
				held[string(event.Kv.Key)] = true
			} else { // two had parts of the same subnet, and one yielded
				delete(held, string(event.Kv.Key))
			}
		}
	}
	r.leased = time.Since(began)
	for _, h := range w.Hosts {
		w.eventually(func() error {
			text, err := os.ReadFile(h.SubnetFile)
			if err != nil {
				return err
			}
			env, err := envfile.Parse(text)
			self := &clustertest.Pod{Host: h, NS: h.NS, MTU: env.MTU}
			for f, s := range env.Subnets {
				if s.IsValid() {
					self.Addr[f] = s.Masked().Addr()
				}
			}
			h.Pods = []*clustertest.Pod{self}
			return err
		})
	}
	w.Matrix()
	r.meshed = time.Since(began)
	for method, n := range w.calls() {
		if r.calls[method] = n - r.calls[method]; r.calls[method] == 0 {
			delete(r.calls, method)
		}
	}
	w.ask(func(ctx context.Context) error {
		now, err := w.client.Get(ctx, configKey)
		if err == nil {
			r.writes = now.Header.Revision - r.writes
		}
		return err
	})
	return r
}

// calls returns how often each of etcd's methods was called, as its first member counts
// them.
func (w *world) calls() map[string]int {
	w.t.Helper()
	transport := &http.Transport{DialContext: within(w.EtcdHost().NS.Path)}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: patience}
	response, err := client.Get(w.etcd.Member(0).Endpoint() + "/metrics")
	if err != nil {
		w.t.Fatal(err)
	}
	defer response.Body.Close()
	calls := make(map[string]int)
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		labels, value, _ := strings.Cut(lines.Text(), "} ")
		_, method, ok := strings.Cut(labels, `grpc_method="`)
		if n, err := strconv.Atoi(value); ok && err == nil && strings.HasPrefix(labels, "grpc_server_started_total{") {
			method, _, _ = strings.Cut(method, `"`)
			calls[method] += n
		}
	}
	if err := lines.Err(); err != nil || len(calls) == 0 {
		w.t.Fatalf("etcd's metrics have no calls: %v", err)
	}
	return calls
}

// within connects to addresses from inside the namespace at path.
func within(path string) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (conn net.Conn, err error) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			runtime.LockOSThread() // the thread ends with the goroutine
			var ns *os.File
			if ns, err = os.Open(path); err != nil {
				return
			}
			defer ns.Close()
			if err = unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err == nil {
				conn, err = new(net.Dialer).DialContext(ctx, network, address)
			}
		}()
		<-done
		return conn, err
	}
}

// fiveSubnets is a config of a network of five subnets.
const fiveSubnets = `{"Network": "10.5.0.0/27", "SubnetLen": 30, "SubnetMin": "10.5.0.4", "SubnetMax": "10.5.0.20"}`

// TestSixthNodeWaitsForASubnet starts five nodes in a network of five subnets, and then a sixth.
func TestSixthNodeWaitsForASubnet(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 5, 1, "")
	t.Log(w.rush(fiveSubnets))
	distinct(t, w.leases())
	for _, h := range w.Hosts {
		if strings.Contains(w.daemons[h].Log(), "out of subnets") {
			t.Errorf("%s is out of subnets, though there are five for five nodes:\n%s", h.Name, w.daemons[h].Log())
		}
		h.Pods = nil
		h.AddPod()
	}
	w.Matrix()

	gone, late := w.Hosts[0], w.AddHost(6)
	leases, key := w.leases(), w.key(gone)
	const full = "all 5 IPv4 subnets from 10.5.0.4/30 to 10.5.0.20/30 are leased"
	w.start(late).WaitLog(full)
	if now := w.leases(); !maps.Equal(now, leases) {
		t.Errorf("there are %v, and were %v", now, leases)
	}
	w.daemons[gone].Stop()
	pods := gone.Pods
	gone.Pods = nil
	w.delete(leasesKey + key)
	late.AddPod()
	w.Matrix()
	if now := w.key(late); now != key {
		t.Errorf("the node leased %s, want %s, which had become free", now, key)
	}
	// A node that returns now has to wait.
	w.start(gone).WaitLog(full)
	w.daemons[late].Stop()
	late.Pods = nil
	w.delete(leasesKey + key)
	w.daemons[gone].WaitLog("Kernel in sync with all peers")
	gone.Pods = pods
	w.Matrix()
	for _, d := range []*clustertest.Daemon{w.daemons[gone], w.daemons[late]} {
		if n := strings.Count(d.Log(), full); n != 1 {
			t.Errorf("%s logged %d times that the network is full:\n%s", d.Name, n, d.Log())
		}
	}
}

var benchNodes = flag.String("nodes", "", "numbers of nodes that start at once, such as 10,50; prints a table")

// TestBenchRush measures how long it takes until nodes that start together all reach
// one another. Without -nodes it does so for a few, with the daemon of the other
// tests, as a test of the benchmark.
func TestBenchRush(t *testing.T) {
	sizes, rounds, to := []string{"3"}, 1, t.Output()
	if *benchNodes != "" {
		sizes, rounds, to = strings.Split(*benchNodes, ","), 5, os.Stdout
		raced := tulled
		tulled = unraced(t)
		t.Cleanup(func() { tulled = raced }) // no other test has begun
	}
	var rows []string
	for _, config := range []struct{ name, text string }{{"IPv4", vxlan}, {"both", dualConfig}} {
		for _, size := range sizes {
			nodes, err := strconv.Atoi(size)
			if err != nil || nodes < 2 || nodes > 200 {
				t.Fatalf("-nodes has %q: write numbers from 2 to 200 with commas between", size)
			}
			var all []rush
			for range rounds {
				t.Run(size+" "+config.name, func(t *testing.T) {
					all = append(all, newWorld(t, nodes, 1, "").rush(config.text))
				})
				if t.Failed() {
					return
				}
			}
			rows = append(rows, row(config.name, all))
		}
	}
	report(to, rows)
}

// unraced builds tulled as it is released, without the race detector.
func unraced(t *testing.T) clustertest.Command {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "tulled")
	build := exec.Command("go", "build", "-tags", "grpcnotrace", "-trimpath", "-o", binary, "github.com/tulle-net/tulle")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build tulled: %v: %s", err, out)
	}
	return clustertest.Command{Argv: []string{binary}}
}

// row returns a row of the table: the median of all rounds, and their range.
func row(name string, all []rush) string {
	times := func(of func(rush) time.Duration) string {
		var sorted []time.Duration
		for _, r := range all {
			sorted = append(sorted, of(r))
		}
		slices.Sort(sorted)
		n := len(sorted)
		return fmt.Sprintf("%d (%d to %d)", ((sorted[(n-1)/2] + sorted[n/2]) / 2).Milliseconds(), sorted[0].Milliseconds(), sorted[n-1].Milliseconds())
	}
	var writes int64
	calls := make(map[string]int)
	for _, r := range all {
		writes += r.writes
		for method, n := range r.calls {
			calls[method] += n
		}
	}
	each := func(n int) string { return fmt.Sprintf("%.1f", float64(n)/float64(len(all)*all[0].nodes)) }
	return fmt.Sprintf("| %s | %d | %s | %s | %s | %s | %s | %s | %s |", name, all[0].nodes,
		times(func(r rush) time.Duration { return r.leased }), times(func(r rush) time.Duration { return r.meshed }),
		each(int(writes)), each(calls["Range"]), each(calls["Txn"]), each(calls["LeaseGrant"]), each(calls["Watch"]))
}

func report(to io.Writer, rows []string) {
	fmt.Fprintf(to, "\n### Nodes that start together\n\n"+
		"Milliseconds from the config on, median (and range); what etcd had to do, for each node. %d processors.\n\n", runtime.NumCPU())
	fmt.Fprintln(to, "| families | nodes | all leased | all reach all | writes | Range | Txn | LeaseGrant | Watch |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|")
	for _, r := range rows {
		fmt.Fprintln(to, r)
	}
}
