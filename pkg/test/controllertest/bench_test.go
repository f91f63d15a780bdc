//go:build kube

package controllertest

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/test/tabletest"
)

var (
	benchNodes = flag.String("nodes", "", "numbers of Nodes to measure with, such as 500,5000; prints tables")
	benchMore  = flag.Int("more", 100, "with -nodes: number of times that one more Node is created")
	// A kubelet lists 50 images by default. Most of the 18 kB of such a Node are its images.
	benchImages = flag.Int("images", 50, "with -nodes or -bench-cloud: number of images that each Node lists; a new machine has few")
)

// benchNode returns a Node that lists as many images as the benchmark wants.
func benchNode(i int) *corev1.Node {
	n := largeNode(i)
	n.Status.Images = n.Status.Images[:min(max(*benchImages, 0), len(n.Status.Images))]
	return n
}

// benchNodesOf returns n of these Nodes, from number 0 on.
func benchNodesOf(n int) (all []*corev1.Node) {
	for i := range n {
		all = append(all, benchNode(i))
	}
	return all
}

// bench holds the settings of the benchmark. Without -nodes, it measures everything once with few
// Nodes, as a test of itself.
type bench struct {
	sizes []int
	more  int
	to    io.Writer
}

func newBench(t *testing.T) bench {
	if *benchNodes == "" {
		return bench{[]int{20}, 2, t.Output()}
	}
	b := bench{more: *benchMore, to: os.Stdout}
	for text := range strings.SplitSeq(*benchNodes, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > 10000 {
			t.Fatalf("-nodes has %q: write numbers from 1 to 10000 with commas between", text)
		}
		b.sizes = append(b.sizes, n)
	}
	return b
}

// measured is what was measured of one program with one number of Nodes.
type measured struct {
	program string
	nodes   int
	// found are the times from the program's start until each existing Node had podCIDRs.
	// rushed are those from the creation of the first Node while the program runs.
	found, rushed time.Duration
	// created is the time that the creation of the Nodes took while the program runs.
	created time.Duration
	// calls counts its API calls from its start until all existing Nodes had podCIDRs.
	calls map[string]int
	// spent is the processor time of everything until all created Nodes had podCIDRs.
	spent  spent
	more   []time.Duration
	memory int64 // the peak, in bytes
}

// spent are processor times: of the API server, its etcd, the program, and the test with its
// clients and its watch. Their sum, divided by the number of processors, is a limit that no
// program can beat.
type spent struct{ server, etcd, program, test time.Duration }

// spent returns the processor times so far. p is nil without a program.
func (l benchLab) spent(p *kerneltest.Process) spent {
	l.t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		l.t.Fatal(err)
	}
	s := spent{server: l.Spent(), etcd: l.Etcd.Member(0).Spent(), test: time.Duration(u.Utime.Nano() + u.Stime.Nano())}
	if p != nil {
		s.program = p.Spent()
	}
	return s
}

// since returns the times after an earlier reading.
func (s spent) since(before spent) spent {
	return spent{s.server - before.server, s.etcd - before.etcd, s.program - before.program, s.test - before.test}
}

// text returns the times for each of n Nodes in milliseconds, and their sum.
func (s spent) text(n int) string {
	each := func(d time.Duration) string { return fmt.Sprintf("%.2f", d.Seconds()*1e3/float64(n)) }
	return fmt.Sprintf("%s + %s + %s + %s = %s", each(s.server), each(s.etcd), each(s.program), each(s.test), each(s.server+s.etcd+s.program+s.test))
}

const (
	none      = "no controller"
	tulleName = "tulle-controller"
	kcmName   = "kube-controller-manager"
)

// benchFlags are the flags of both programs.
var benchFlags = []string{"--cluster-cidr=10.128.0.0/9", "--node-cidr-mask-size=24"}

// TestBenchController measures, on fresh control planes, how long Nodes wait for
// podCIDRs: Nodes that exist when a program starts, Nodes that are created at once
// while it runs, and one more Node after that.
func TestBenchController(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	program, err := installed()
	if err != nil {
		t.Fatal(err)
	}
	var all []*measured
	for _, nodes := range b.sizes {
		for _, name := range []string{none, tulleName, kcmName} {
			t.Run(fmt.Sprintf("%s %d", name, nodes), func(t *testing.T) {
				m := &measured{program: name, nodes: nodes}
				all = append(all, m)
				b.progress("%s, %d Nodes that exist at its start", name, nodes)
				newBenchLab(t, program).found(m)
				b.progress("%s, %d Nodes that are created while it runs", name, nodes)
				newBenchLab(t, program).rushed(m, b.more)
			})
			if t.Failed() {
				return
			}
		}
	}
	b.report(all)
}

func (b bench) progress(format string, args ...any) {
	if *benchNodes != "" {
		fmt.Fprintf(os.Stderr, format+"\n", args...)
	}
}

// benchLab is a control plane for one measurement.
type benchLab struct {
	*lab
}

func newBenchLab(t *testing.T, program string) benchLab {
	t.Helper()
	l := newLab(t)
	l.program = program
	return benchLab{l}
}

// start runs a program.
func (l benchLab) start(name string) *kerneltest.Process {
	l.t.Helper()
	if name == kcmName {
		return l.kcm(benchFlags...)
	}
	return l.tulle(benchFlags...)
}

// found measures a program that starts among Nodes without podCIDRs.
func (l benchLab) found(m *measured) {
	l.t.Helper()
	l.Register(nil, benchNodesOf(m.nodes)...)
	l.await(patience, func(all map[string]seen) error {
		if len(all) != m.nodes {
			return fmt.Errorf("the watch shows %d Nodes", len(all))
		}
		return nil
	})
	before := l.calls()
	began := time.Now()
	if m.program == none {
		l.assign(slices.Sorted(maps.Keys(l.view.all())))
	} else {
		p := l.start(m.program)
		defer func() {
			m.memory = max(m.memory, peak(l.t, p))
			p.End(syscall.SIGKILL)
		}()
	}
	m.found = l.served(10 * time.Minute).Sub(began)
	m.calls = l.calls()
	for call, n := range before {
		if m.calls[call] -= n; m.calls[call] == 0 {
			delete(m.calls, call)
		}
	}
}

// rushed measures a program while Nodes are created.
func (l benchLab) rushed(m *measured, more int) {
	l.t.Helper()
	var p *kerneltest.Process
	if m.program != none {
		p = l.start(m.program)
		l.Register(nil, largeNode(90000))
		l.served(patience) // it works
	}
	nodes := benchNodesOf(m.nodes)
	var names []string
	for _, n := range nodes {
		names = append(names, n.Name)
	}
	before := l.spent(p)
	began := time.Now()
	if m.program != none {
		l.Register(nil, nodes...)
		m.created = time.Since(began)
		m.rushed = l.served(10*time.Minute, names...).Sub(began)
		m.spent = l.spent(p).since(before)
		for i := range more {
			name := benchNode(m.nodes + i)
			began := time.Now()
			l.Register(nil, name)
			m.more = append(m.more, l.served(patience, name.Name).Sub(began))
		}
		m.memory = max(m.memory, peak(l.t, p))
		p.End(syscall.SIGKILL)
		return
	}
	// The limit that the API server sets: patch each Node as soon as it is created.
	created := make(chan string, m.nodes)
	var patches sync.WaitGroup
	for range patchers {
		patches.Go(func() {
			for name := range created {
				l.assignOne(name)
			}
		})
	}
	l.Register(func(name string) { created <- name }, nodes...)
	m.created = time.Since(began)
	close(created)
	patches.Wait()
	m.rushed = l.served(patience).Sub(began)
	m.spent = l.spent(nil).since(before)
	for i := range more {
		n := benchNode(m.nodes + i)
		began := time.Now()
		l.Register(l.assignOne, n)
		m.more = append(m.more, l.served(patience, n.Name).Sub(began))
	}
}

// patchers is the number of bare patches in flight.
const patchers = 32

// assign patches podCIDRs into Nodes, with patchers requests in flight.
func (l benchLab) assign(names []string) {
	work := make(chan string)
	var workers sync.WaitGroup
	for range patchers {
		workers.Go(func() {
			for name := range work {
				l.assignOne(name)
			}
		})
	}
	for _, name := range names {
		work <- name
	}
	close(work)
	workers.Wait()
}

// assignOne patches podCIDRs into the Node of a number.
func (l benchLab) assignOne(name string) {
	i, err := strconv.Atoi(strings.TrimPrefix(name, "node-"))
	if err != nil {
		l.t.Error(err)
		return
	}
	cidr := fmt.Sprintf("10.%d.%d.0/24", 128+i>>8, i&255)
	body := fmt.Sprintf(`{"spec":{"podCIDR":%q,"podCIDRs":[%q]}}`, cidr, cidr)
	r, err := http.NewRequest(http.MethodPatch, l.URL+nodesPath+"/"+name, strings.NewReader(body))
	if err != nil {
		l.t.Error(err)
		return
	}
	r.Header.Set("Content-Type", "application/strategic-merge-patch+json") // costs the server less than a merge patch
	// Read only the fields that a controller needs.
	r.Header.Set("Accept", "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1")
	a, err := l.Client().Do(r)
	if err != nil {
		l.t.Error(err)
		return
	}
	defer a.Body.Close()
	if text, err := io.ReadAll(a.Body); err != nil || a.StatusCode != http.StatusOK {
		l.t.Errorf("%s: %s %q %v", name, a.Status, text, err)
	}
}

// label finds a label in a line of metrics.
func label(line, name string) string {
	_, rest, _ := strings.Cut(line, name+`="`)
	value, _, _ := strings.Cut(rest, `"`)
	return value
}

// counted are the resources whose requests the benchmark counts.
var counted = regexp.MustCompile(`^(nodes|events|leases|servicecidrs)$`)

// calls returns how many requests the API server has answered or is answering, by verb
// and resource.
func (l benchLab) calls() map[string]int {
	l.t.Helper()
	a, err := l.Client().Get(l.URL + "/metrics")
	if err != nil {
		l.t.Fatal(err)
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err != nil || a.StatusCode != http.StatusOK {
		l.t.Fatalf("%s %v", a.Status, err)
	}
	calls := make(map[string]int)
	for line := range strings.Lines(string(text)) {
		// A watch counts in apiserver_request_total only when it ends.
		watch := strings.HasPrefix(line, "apiserver_longrunning_requests{")
		if resource := label(line, "resource"); (watch || strings.HasPrefix(line, "apiserver_request_total{")) && counted.MatchString(resource) {
			n, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:len(line)-1], 64)
			if err != nil {
				l.t.Fatal(err)
			}
			calls[label(line, "verb")+" "+resource] += int(n)
		}
	}
	return calls
}

// peak returns a process's peak memory.
func peak(t testing.TB, p *kerneltest.Process) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := bytes.Cut(text, []byte("VmHWM:"))
	fields := bytes.Fields(rest)
	if len(fields) < 1 {
		t.Fatalf("no VmHWM in %s", text)
	}
	kib, err := strconv.ParseInt(string(fields[0]), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return kib << 10
}

// report prints all measurements.
func (b bench) report(all []*measured) {
	rows := [][]string{{"", "Nodes", "created in", "all have podCIDRs", "× no controller", "processor time a Node: API server + etcd + program + test", "found at the start", "× no controller", "one more, median", "95 of 100", "peak memory, MiB", "API calls at the start"}}
	limits := make(map[int]*measured)
	for _, m := range all {
		if m.program == none {
			limits[m.nodes] = m
		}
		limit := limits[m.nodes]
		if limit == nil {
			limit = new(measured) // this one was not measured
		}
		slices.Sort(m.more)
		at := func(share int) string { return ms(m.more[(len(m.more)-1)*share/100]) }
		memory := "–"
		if m.memory > 0 {
			memory = fmt.Sprintf("%.1f", float64(m.memory)/(1<<20))
		}
		rows = append(rows, []string{
			m.program, fmt.Sprint(m.nodes), ms(m.created), ms(m.rushed), ratio(m.rushed, limit.rushed), m.spent.text(m.nodes), ms(m.found), ratio(m.found, limit.found),
			at(50), at(95), memory, callsText(m.calls),
		})
	}
	fmt.Fprintf(b.to, "\n%s, %d processors. A Node has %.1f kB. Times are in ms. Without a controller, bare patches, %d in flight, assign the podCIDRs, which shows the limit of the API server.\n\n%s",
		runtime.Version(), runtime.NumCPU(), float64(benchNode(0).Size())/1000, patchers, tabletest.Markdown(rows...))
}

func ms(d time.Duration) string { return fmt.Sprintf("%.1f", d.Seconds()*1e3) }

func ratio(a, b time.Duration) string {
	if b == 0 {
		return "–"
	}
	return fmt.Sprintf("%.2f", a.Seconds()/b.Seconds())
}

func callsText(calls map[string]int) string {
	var each []string
	for _, call := range slices.Sorted(maps.Keys(calls)) {
		each = append(each, fmt.Sprintf("%d %s", calls[call], call))
	}
	return strings.Join(each, ", ")
}
