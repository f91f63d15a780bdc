//go:build kube

package controllertest

import (
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/test/sourcetest"
	"github.com/tulle-net/tulle/pkg/test/tabletest"
)

var benchAppear = flag.Int("bench-appear", 0, "number of Nodes that TestBenchAppear creates at once while a program runs; prints a table")

// TestBenchAppear measures how long Nodes that appear at once wait to be initialised. The program
// runs already.
func TestBenchAppear(t *testing.T) {
	t.Parallel()
	nodes, to := 8, t.Output()
	if *benchAppear > 0 {
		nodes, to = *benchAppear, io.Writer(os.Stdout)
	}
	program, err := installed()
	if err != nil {
		t.Fatal(err)
	}
	other, err := sourcetest.CCM.Find()
	if err != nil {
		t.Fatal(err)
	}
	rows := [][]string{{"", "Nodes", "created within, s", "all initialised after, s", "a Node waited, median / longest, s", "calls"}}
	for _, name := range []string{tulleName, ccmName} {
		if name == ccmName && (other == "" || *benchAppear == 0) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			a := fakeAccount(t, nodes+1, *benchLatency)
			v := l.watchCloud(&cloudView{unrouted: true})
			var p *kerneltest.Process
			if name == ccmName {
				p = l.ccm(other, a, "--configure-cloud-routes=false")
			} else {
				p = l.ours(program, l.ServiceAccount("kube-system", "cloud", allRules()...), a, "--leader-elect=false", "--cloud-config="+l.cloudConfig(a), nodeControllers)
			}
			l.registerHomes(0, a.homes[0]) // the program leads once this Node is initialised
			l.complete(v, 1, p, *benchLimit)
			before, began := a.counts(), time.Now()
			l.registerHomes(1, a.homes[1:]...)
			created := time.Since(began)
			all := l.complete(v, nodes+1, p, *benchLimit).Sub(began)
			v.mu.Lock()
			waits := slices.Sorted(slices.Values(v.waits[1:]))
			v.mu.Unlock()
			rows = append(rows, []string{
				name, fmt.Sprint(nodes), fmt.Sprintf("%.2f", created.Seconds()), fmt.Sprintf("%.2f", all.Seconds()),
				fmt.Sprintf("%.2f / %.2f", waits[len(waits)/2].Seconds(), waits[len(waits)-1].Seconds()), callsText(since(before, a.counts())),
			})
			p.End(syscall.SIGTERM)
		})
	}
	fmt.Fprintf(to, "\n%s, %d processors. A Node has %.1f kB. A call to the account takes %v. The program runs before the Nodes are created.\n\n%s",
		runtime.Version(), runtime.NumCPU(), float64(benchNode(0).Size())/1000, *benchLatency, tabletest.Markdown(rows...))
}
