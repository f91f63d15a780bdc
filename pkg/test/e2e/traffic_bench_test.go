package e2e

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/test/clustertest"
	"github.com/tulle-net/tulle/pkg/test/flanneltest"
	"github.com/tulle-net/tulle/pkg/test/tabletest"
	"github.com/tulle-net/tulle/pkg/test/traffictest"
)

var (
	trafficTime   = flag.Duration("traffic", 0, "how long TestBenchTraffic sends each kind of traffic; prints a table of backends, with flanneld's udp")
	trafficRounds = flag.Int("traffic-rounds", 3, "with -traffic: number of measurements of each")
)

// path is a way from one pod, or host, to another.
type path struct {
	name     string
	from, to *kerneltest.NS
	address  string
	one      []carried // TCP in one stream
	eight    []carried // in eight
	small    []carried // the highest rate of small packets of which none was lost
}

// carried is what was carried: bits or packets a second, and the processors that the whole
// machine used for it.
type carried struct{ rate, cores float64 }

// smallRates are tried from the lowest on, until packets are lost.
var smallRates = []int{20000, 50000, 100000, 200000, 250000, 300000}

// TestBenchTraffic measures what backends carry between two hosts of this machine: in
// turns, so that what disturbs one disturbs all. Without -traffic it only shows that the
// measurement works.
func TestBenchTraffic(t *testing.T) {
	t.Parallel()
	rounds, each, rates, to := 1, 100*time.Millisecond, []int{1000}, t.Output()
	program := tulled
	if *trafficTime > 0 {
		rounds, each, rates, to = *trafficRounds, *trafficTime, smallRates, os.Stdout
		program = clustertest.Command{Argv: []string{installed(t)}}
	}
	paths := []*path{tunnel(t, "udp", program, "Kernel in sync with all peers")}
	if *trafficTime > 0 {
		flannel, err := flanneltest.Find()
		if err != nil {
			t.Fatal(err)
		}
		flanneld := tunnel(t, "udp", clustertest.Command{Argv: []string{flannel.Flanneld}}, "Running backend")
		flanneld.name = "udp of flanneld"
		paths = append(paths, flanneld)
		bare := hosts(t)
		for _, backend := range []string{"vxlan", "ipip", "host-gw"} {
			if backend == "ipip" && !bare.hasIPIP() {
				fmt.Fprintln(to, "This kernel has no ipip, which is left out.")
				continue
			}
			paths = append(paths, tunnel(t, backend, program, "Kernel in sync with all peers"))
		}
		paths = append(paths, bare)
	}
	for range rounds {
		for _, p := range paths {
			p.measure(t, each, rates)
		}
	}
	report := [][]string{{"Path", "one stream, Gbit/s", "processors", "eight streams, Gbit/s", "processors", "small packets a second, none lost", "processors"}}
	for _, p := range paths {
		report = append(report, slices.Concat([]string{p.name}, cells(p.one, 1e9, 2), cells(p.eight, 1e9, 2), cells(p.small, 1, 0)))
	}
	fmt.Fprintf(to, "\n%s, %d processors, %d rounds of %s for each measurement. Minimum / median / maximum.\n\n%s",
		runtime.Version(), runtime.NumCPU(), rounds, each, tabletest.Markdown(report...))
}

// tunnel returns the path between pods on two hosts of a network of its own.
func tunnel(t *testing.T, backend string, program clustertest.Command, ready string) *path {
	t.Helper()
	_, p := tunnelOf(t, fmt.Sprintf(`{"Type": %q}`, backend), program, ready)
	p.name = backend
	return p
}

// tunnelOf returns the same for a backend with keys, and the network.
func tunnelOf(t *testing.T, backend string, program clustertest.Command, ready string) (*world, *path) {
	t.Helper()
	w := newWorld(t, 2, 1, fmt.Sprintf(`{"Network": "10.5.0.0/16", "EnableNFTables": true, "Backend": %s}`, backend))
	for _, h := range w.Hosts {
		flags := []string{"--etcd-endpoints=" + strings.Join(w.etcd.Endpoints(), ","), "--subnet-file=" + h.SubnetFile}
		if ready != "Running backend" {
			flags = w.flags(h)
		}
		w.daemons[h] = h.Start(program, flags...)
		w.daemons[h].WaitLog(ready)
		h.AddPod()
	}
	w.Matrix()
	from, to := w.Hosts[0].Pods[0], w.Hosts[1].Pods[0]
	return w, &path{from: from.NS, to: to.NS, address: to.Addr[0].String()}
}

// hosts returns the path between two hosts, without any tunnel.
func hosts(t *testing.T) *path {
	t.Helper()
	c := clustertest.New(t, clustertest.Options{Hosts: 2})
	from, to := c.Hosts[0], c.Hosts[1]
	return &path{name: "the hosts themselves", from: from.NS, to: to.NS, address: to.Addr[0].String()}
}

// hasIPIP reports whether the kernel has IPIP tunnels.
func (p *path) hasIPIP() bool {
	return p.from.Command("ip", "link", "add", "ipip-test", "type", "ipip", "remote", p.address).Run() == nil
}

// measure sends each kind of traffic once.
func (p *path) measure(t *testing.T, each time.Duration, rates []int) {
	t.Helper()
	of := func(send func() float64) carried {
		before, began := busy(t), time.Now()
		rate := send()
		return carried{rate, (busy(t) - before).Seconds() / time.Since(began).Seconds()}
	}
	tcp := func(streams int) carried {
		l := of(func() float64 { return traffictest.TCP(t, p.from, p.to, p.address, streams, each) })
		if l.rate == 0 {
			t.Errorf("%s carries nothing in %d streams", p.name, streams)
		}
		return l
	}
	p.one, p.eight = append(p.one, tcp(1)), append(p.eight, tcp(8))
	var best carried
	for _, rate := range rates {
		var lost float64
		l := of(func() (sent float64) {
			sent, lost = traffictest.UDP(t, p.from, p.to, p.address, rate, each)
			return sent
		})
		if *trafficTime > 0 {
			fmt.Fprintf(os.Stderr, "%s: %d small packets a second, %.0f sent, %.4f %% lost\n", p.name, rate, l.rate, 100*lost)
		}
		if lost > 0 || l.rate < 0.95*float64(rate) {
			break
		}
		best = l
	}
	p.small = append(p.small, best)
}

// cells returns the rates of loads, and the processors that they took.
func cells(of []carried, unit float64, digits int) []string {
	var rates, cores []float64
	for _, l := range of {
		rates, cores = append(rates, l.rate/unit), append(cores, l.cores)
	}
	text := func(of []float64, digits int) string {
		slices.Sort(of)
		return fmt.Sprintf("%.*f / %.*f / %.*f", digits, of[0], digits, of[len(of)/2], digits, of[len(of)-1])
	}
	return []string{text(rates, digits), text(cores, 1)}
}

// busy returns how long the processors of this machine have worked so far, all together.
func busy(t *testing.T) (d time.Duration) {
	t.Helper()
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		t.Fatal(err)
	}
	line, _, _ := strings.Cut(string(text), "\n")
	for i, field := range strings.Fields(line) {
		const name, idle, waiting, stolen = 0, 4, 5, 8
		if i == name || i == idle || i == waiting || i >= stolen {
			continue
		}
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		d += time.Duration(n) * (time.Second / 100)
	}
	return d
}
