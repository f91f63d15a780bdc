//go:build kube

package controllertest

import (
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/cloud/aws/awstest"
	"github.com/tulle-net/tulle/pkg/controller/awscluster"
	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/test/sourcetest"
	"github.com/tulle-net/tulle/pkg/test/tabletest"
)

var (
	benchNetwork        = flag.Bool("bench-network", false, "measure the programs that build networks of AWSClusters; prints a table")
	benchNetworkLatency = flag.Duration("bench-network-latency", 100*time.Millisecond, "with -bench-network: how long a call to the account takes")
)

const (
	// syncPeriod is the time between two comparisons in the benchmark, and syncQuiet how long no
	// call is made before a comparison counts as over.
	syncPeriod = 15 * time.Second
	syncQuiet  = 4 * time.Second
	// networkLimit is how long one network may take.
	networkLimit = 6 * time.Minute
)

// networkCase is one measurement: a program, the account, and the type of the load balancer.
type networkCase struct{ program, account, balancer string }

// networkMeasured is what was measured.
type networkMeasured struct {
	networkCase
	took        time.Duration // from the creation of the AWSCluster until its network is ready
	calls, idle map[string]int
	memory      int64
}

// TestBenchNetwork measures the time, the calls and the memory that a network in three zones
// takes, and the calls of a comparison that finds nothing to do.
func TestBenchNetwork(t *testing.T) {
	t.Parallel()
	to, latency := t.Output(), time.Duration(0)
	if *benchNetwork {
		to, latency = io.Writer(os.Stdout), *benchNetworkLatency
	}
	program, err := installed()
	if err != nil {
		t.Fatal(err)
	}
	cases := []networkCase{{tulleName, fakeKind, "nlb"}}
	var left []string
	other := ""
	if *benchNetwork {
		if other, err = sourcetest.CAPA.Find(); err != nil {
			t.Fatal(err)
		}
		if other == "" {
			left = append(left, "Only tulle-controller was measured; to measure the other program, set "+sourcetest.CAPA.Hint()+".")
		} else {
			cases = append(cases, networkCase{capaName, fakeKind, "nlb"})
		}
		if !hasMoto() {
			left = append(left, "moto_server was not found; install it: pip install 'moto[server]'")
		} else {
			cases = append(cases, networkCase{tulleName, motoKind, "nlb"})
			if other != "" {
				cases = append(cases, networkCase{capaName, motoKind, "classic"})
			}
		}
	}
	var all []networkMeasured
	for _, c := range cases {
		t.Run(c.program+" "+c.account, func(t *testing.T) {
			m := measureNetwork(t, c, program, other, latency)
			if all = append(all, m); *benchNetwork {
				fmt.Fprintf(os.Stderr, "%s, %s, %s: %.2f s, %.0f MiB, %d calls: %s; idle %d: %s\n", c.program, c.account, c.balancer, m.took.Seconds(), float64(m.memory)/(1<<20), sum(m.calls), callsText(m.calls), sum(m.idle), callsText(m.idle))
			}
		})
	}
	reportNetworks(to, all, latency, left)
}

// measureNetwork measures one program.
func measureNetwork(t *testing.T, c networkCase, program, other string, latency time.Duration) networkMeasured {
	l := newNetworkLabWith(t, (*networkLab).realDefinitions)
	var a *cloudAccount
	if c.account == motoKind {
		a = motoNetworkAccount(t, latency)
	} else {
		a = networkAccount(l, latency)
	}
	l.outwaitDefinitions()
	var p *kerneltest.Process
	if c.program == capaName {
		p = l.capa(other, a, "--sync-period="+syncPeriod.String())
	} else {
		p = l.builds(program, a, "--leader-elect=false", "--network-reconciliation-period="+syncPeriod.String())
	}
	before, began := a.counts(), time.Now()
	l.clusterWith("prod", map[string]any{
		"region": awstest.Region, "network": map[string]any{"vpc": map[string]any{"cidrBlock": "10.0.0.0/16", "availabilityZoneUsageLimit": 3}},
		"controlPlaneLoadBalancer": balancerOf(c),
	})
	var n network
	kerneltest.Eventually(t, networkLimit, func() (err error) {
		n, err = l.network("prod")
		if err == nil && !n.Status.Ready {
			err = fmt.Errorf("not ready: %+v", n.Status.Conditions)
		}
		if p.Over() {
			t.Fatalf("%s ended:\n%.8000s", c.program, p.Said())
		}
		return err
	})
	m := networkMeasured{networkCase: c, took: time.Since(began)}
	if err := n.handsOn(); err != nil {
		t.Errorf("%s: %v", c.program, err)
	}
	// The counts end when the program makes no more calls: it may compare once more.
	m.calls = since(before, settledCounts(t, a))
	if *benchNetwork {
		m.idle = idleSync(t, a)
	}
	m.memory = peak(t, p)
	p.End(syscall.SIGTERM)
	return m
}

// outwaitDefinitions waits until the API server no longer delays creations. It delays those of a new
// resource by two seconds, which would count for the program that starts sooner.
func (l *networkLab) outwaitDefinitions() {
	l.t.Helper()
	trial := map[string]any{"name": "trial"}
	l.Do(http.MethodPost, clustersPath+"?dryRun=All", map[string]any{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": trial}, nil)
	l.Do(http.MethodPost, awsClustersPath+"?dryRun=All", map[string]any{
		"apiVersion": awscluster.Group + "/v1beta2", "kind": awscluster.Kind, "metadata": trial, "spec": map[string]any{"region": awstest.Region},
	}, nil)
}

// balancerOf returns the load balancer of a spec. The other program would wait until the name of
// the load balancer can be resolved, which no emulator's can.
func balancerOf(c networkCase) map[string]any {
	b := map[string]any{"loadBalancerType": c.balancer}
	if c.program == capaName {
		b["dnsResolutionCheck"] = "None"
	}
	return b
}

// settledCounts returns the counts when no call was made for a while.
func settledCounts(t testing.TB, a *cloudAccount) map[string]int {
	t.Helper()
	last, changed := a.counts(), time.Now()
	kerneltest.Eventually(t, networkLimit, func() error {
		if now := a.counts(); !maps.Equal(now, last) {
			last, changed = now, time.Now()
		}
		if time.Since(changed) < syncQuiet {
			return fmt.Errorf("calls go on: %s", callsText(last))
		}
		return nil
	})
	return last
}

// idleSync returns the calls of one comparison, the second from now.
func idleSync(t testing.TB, a *cloudAccount) (calls map[string]int) {
	t.Helper()
	for range 2 {
		before := settledCounts(t, a)
		kerneltest.Eventually(t, 4*syncPeriod, func() error {
			if maps.Equal(a.counts(), before) {
				return fmt.Errorf("no comparison")
			}
			return nil
		})
		calls = since(before, settledCounts(t, a))
	}
	return calls
}

func reportNetworks(to io.Writer, all []networkMeasured, latency time.Duration, left []string) {
	rows := [][]string{{"", "account", "load balancer", "ready after, s", "calls", "of them writes", "by action", "calls of an idle comparison", "of them writes", "by action", "peak memory, MiB"}}
	for _, m := range all {
		rows = append(rows, []string{
			m.program, m.account, m.balancer, fmt.Sprintf("%.2f", m.took.Seconds()), fmt.Sprint(sum(m.calls)), fmt.Sprint(sum(writesOf(m.calls))), callsText(m.calls),
			fmt.Sprint(sum(m.idle)), fmt.Sprint(sum(writesOf(m.idle))), callsText(m.idle), fmt.Sprintf("%.1f", float64(m.memory)/(1<<20)),
		})
	}
	fmt.Fprintf(to, "\n%s, %d processors. A call to the account takes %v more than the emulator itself needs. The calls of a network include those of the comparisons until it is at rest.\n%s\n\n%s",
		runtime.Version(), runtime.NumCPU(), latency, strings.Join(left, "\n"), tabletest.Markdown(rows...))
}

// writesOf returns the calls that may change something.
func writesOf(calls map[string]int) map[string]int {
	all := maps.Clone(calls)
	maps.DeleteFunc(all, func(action string, _ int) bool {
		return strings.HasPrefix(action, "Describe") || strings.HasPrefix(action, "Get")
	})
	return all
}
