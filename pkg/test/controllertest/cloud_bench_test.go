//go:build kube

package controllertest

import (
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/test/sourcetest"
	"github.com/tulle-net/tulle/pkg/test/tabletest"
)

var (
	benchCloud   = flag.String("bench-cloud", "", "numbers of Nodes to measure the controllers of a cloud with, such as 50,5000; prints a table")
	benchIdle    = flag.Duration("bench-idle", 5*time.Minute, "with -bench-cloud: how long to count the calls of an idle program")
	benchLimit   = flag.Duration("bench-limit", 8*time.Minute, "with -bench-cloud: how long one measurement may take")
	benchRoutes  = flag.Bool("bench-routes", true, "with -bench-cloud: also write routes")
	benchLatency = flag.Duration("bench-latency", 20*time.Millisecond, "with -bench-cloud: how long a call to the account takes, except on moto")
)

const (
	// ccmMost and motoMost are the largest clusters in which the benchmark measures the
	// other program and uses moto. Larger ones take many minutes.
	ccmMost, motoMost = 500, 100
	// calm is how long after its first writes a program counts as idle.
	calm = 30 * time.Second
	// usualRoutes is the number of Nodes that AWS's published rates can route in a short
	// time.
	usualRoutes = 100
)

// cloudMeasured is what was measured of one program with one account.
type cloudMeasured struct {
	program, account string
	nodes            int
	initialised      time.Duration // from its start until all Nodes are initialised
	took             time.Duration // and until they are routed, too, if they are
	calls            map[string]int
	idle             map[string]int // in benchIdle
	memory           int64
}

// TestBenchCloud measures the time until a program has initialised and routed all Nodes, the
// requests that it sends to the cloud for that, and those that it sends while nothing changes.
func TestBenchCloud(t *testing.T) {
	t.Parallel()
	sizes, to := []int{8}, t.Output()
	if *benchCloud != "" {
		sizes, to = nil, io.Writer(os.Stdout)
		for text := range strings.SplitSeq(*benchCloud, ",") {
			n, err := strconv.Atoi(text)
			if err != nil || n < 1 || n > 10000 {
				t.Fatalf("-bench-cloud has %q: write numbers from 1 to 10000 with commas between", text)
			}
			sizes = append(sizes, n)
		}
	}
	program, err := installed()
	if err != nil {
		t.Fatal(err)
	}
	other, err := sourcetest.CCM.Find()
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	if other == "" {
		left = append(left, "Only tulle-controller was measured; to measure the other program, set "+sourcetest.CCM.Hint()+".")
	}
	moto := *benchCloud != "" && hasMoto()
	if *benchCloud != "" && !moto {
		left = append(left, "moto_server was not found; install it: pip install 'moto[server]'")
	}
	var all []cloudMeasured
	for _, nodes := range sizes {
		for _, kind := range []string{fakeKind, motoKind} {
			if kind == motoKind && (!moto || nodes > motoMost) {
				continue
			}
			for _, name := range []string{none, tulleName, ccmName} {
				if name == none && kind == motoKind || name == ccmName && (other == "" || nodes > ccmMost) {
					continue
				}
				t.Run(fmt.Sprintf("%s %s %d", name, kind, nodes), func(t *testing.T) {
					if *benchCloud != "" {
						fmt.Fprintf(os.Stderr, "%s, %s, %d Nodes\n", name, kind, nodes)
					}
					m := measureCloud(t, name, kind, nodes, program, other)
					if all = append(all, m); *benchCloud != "" {
						fmt.Fprintf(os.Stderr, "  %.2f s, initialised after %.2f s, %.0f MiB, %d calls: %s; idle: %s\n", m.took.Seconds(), m.initialised.Seconds(), float64(m.memory)/(1<<20), sum(m.calls), callsText(m.calls), callsText(m.idle))
					}
				})
				if t.Failed() {
					return
				}
			}
		}
	}
	reportCloud(to, all, left)
}

// raises reports whether the account allows more requests than AWS's published rates
// do, because routes to so many Nodes would take long.
func raises(nodes int) bool { return *benchRoutes && nodes > usualRoutes }

// measureCloud measures one program.
func measureCloud(t *testing.T, name, kind string, nodes int, program, other string) cloudMeasured {
	l := newLab(t)
	var a *cloudAccount
	if kind == motoKind {
		a = motoAccount(t, nodes)
	} else {
		a = fakeAccount(t, nodes, *benchLatency)
	}
	cidrs := l.registerHomes(0, a.homes...)
	v := l.watchCloud(&cloudView{unrouted: !*benchRoutes || name == none})
	l.known(v, nodes)
	m := cloudMeasured{program: name, account: kind, nodes: nodes}
	before := a.counts()
	began := time.Now()
	if name == none {
		l.bare(a.homes)
		m.initialised = l.complete(v, nodes, nil, *benchLimit).Sub(began)
		return m
	}
	var p *kerneltest.Process
	if name == ccmName {
		p = l.ccm(other, a, fmt.Sprintf("--configure-cloud-routes=%t", *benchRoutes))
	} else {
		flags := []string{"--leader-elect=false", "--cloud-config=" + l.cloudConfig(a)}
		if !*benchRoutes {
			flags = append(flags, nodeControllers)
		}
		if raises(nodes) {
			flags = append(flags, "--aws-api-share=1000")
		}
		p = l.ours(program, l.ServiceAccount("kube-system", "cloud", allRules()...), a, flags...)
	}
	m.took = l.complete(v, nodes, p, *benchLimit).Sub(began)
	v.mu.Lock()
	m.initialised = v.initialised.Sub(began)
	v.mu.Unlock()
	if !*benchRoutes {
		cidrs = nil
	}
	l.agree(a, cidrs)
	m.calls = since(before, a.counts())
	if *benchCloud != "" {
		<-time.After(calm)
		before = a.counts()
		<-time.After(*benchIdle)
		m.idle = since(before, a.counts())
		l.agree(a, cidrs)
	}
	m.memory = peak(t, p)
	p.End(syscall.SIGTERM)
	return m
}

// since returns the calls since before.
func since(before, now map[string]int) map[string]int {
	all := make(map[string]int)
	for action, n := range now {
		if n -= before[action]; n > 0 {
			all[action] = n
		}
	}
	return all
}

func sum(calls map[string]int) (n int) {
	for _, each := range calls {
		n += each
	}
	return n
}

func reportCloud(to io.Writer, all []cloudMeasured, left []string) {
	rows := [][]string{{"", "account", "Nodes", "initialised after, s", "× no controller", "routed, too, s", "calls", "by action", "calls a minute, idle", "by action", "peak memory, MiB"}}
	limits := make(map[int]time.Duration)
	for _, m := range all {
		idle, memory := "–", "–"
		if m.program == none {
			limits[m.nodes] = m.initialised
		} else {
			memory = fmt.Sprintf("%.1f", float64(m.memory)/(1<<20))
		}
		if *benchCloud != "" && m.program != none {
			idle = fmt.Sprintf("%.1f", float64(sum(m.idle))/benchIdle.Minutes())
		}
		took := "–"
		if *benchRoutes && m.program != none {
			took = fmt.Sprintf("%.2f", m.took.Seconds())
		}
		rows = append(rows, []string{
			m.program, m.account, fmt.Sprint(m.nodes), fmt.Sprintf("%.2f", m.initialised.Seconds()), ratio(m.initialised, limits[m.nodes]), took, fmt.Sprint(sum(m.calls)), callsText(m.calls),
			idle, callsText(m.idle), memory,
		})
	}
	fmt.Fprintf(to, "\n%s, %d processors. A Node has %.1f kB. A call to the account takes %v, except on moto. With routes to more than %d Nodes, tulle-controller runs with --aws-api-share=1000. Without a controller, bare PATCHes initialise the Nodes, %d of them in flight: what the API server can do.\n%s\n\n%s",
		runtime.Version(), runtime.NumCPU(), float64(benchNode(0).Size())/1000, *benchLatency, usualRoutes, patchers, strings.Join(left, "\n"), tabletest.Markdown(rows...))
}
