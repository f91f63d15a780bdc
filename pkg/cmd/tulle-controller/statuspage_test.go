package main

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/cloudbalancer"
	"github.com/tulle-net/tulle/pkg/controller"
	"github.com/tulle-net/tulle/pkg/controller/nodeipam"
	"github.com/tulle-net/tulle/pkg/controller/service"
	"github.com/tulle-net/tulle/pkg/election"
	"github.com/tulle-net/tulle/pkg/ipam"
	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/page"
	"github.com/tulle-net/tulle/subnet"
)

var pages = flag.String("pages", "", "folder to write the pages of the tests to, for a look at them")

// seen is what a program was doing, and where the blocks of its pools lay.
type seen struct {
	reading
	layouts []ipam.Layout
}

// render returns the page.
func render(s seen) string {
	var d page.Document
	newView(s.reading, s.layouts).write(&d)
	return d.String()
}

// at is when all of these tests read.
var at = time.Date(2026, 11, 22, 14, 5, 9, 0, time.UTC)

// filled returns pools with n Nodes in them, of which each tenth is gone. Half of the
// Nodes came before a range was draining.
func filled(t testing.TB, n int, pools ...ipam.Pool) (report nodeipam.Report, layouts []ipam.Layout) {
	t.Helper()
	const age = 300 * 24 * time.Hour
	open := slices.Clone(pools)
	for i := range open {
		open[i].Draining = nil
	}
	b, err := ipam.New(open)
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if i == n/2 {
			err = b.SetPools(pools)
		}
		name, born := fmt.Sprintf("worker-%d", i), at.Add(-age+time.Duration(i)*age/time.Duration(n))
		say := ipam.Node{Name: name, UID: name, Created: born.Unix()}
		b.Set(say, born)
		grants, _ := b.Next(born, 1)
		for _, g := range grants {
			for _, c := range g.CIDRs {
				say.CIDRs = append(say.CIDRs, c.String())
			}
			b.Set(say, born)
		}
	}
	for i := 0; i < n; i += 10 {
		gone := at
		if i < n/2 {
			gone = at.Add(-ipam.DefaultRest)
		}
		b.Delete(fmt.Sprintf("worker-%d", i), gone)
	}
	if err != nil {
		t.Fatal(err)
	}
	report = nodeipam.Report{Nodes: n - n/10, Pools: b.Usage(at)}
	for f := range b.Findings() {
		report.Findings = append(report.Findings, f)
	}
	return report, b.Layouts(at, mostPictures, mostParts)
}

func ranges(texts ...string) (all []netip.Prefix) {
	for _, text := range texts {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

// twoFamilies returns a pool of both.
func twoFamilies(name string, v4, v6 []netip.Prefix) ipam.Pool {
	return ipam.Pool{Name: name, Ranges: subnet.Pair[[]netip.Prefix]{v4, v6}, Bits: subnet.Pair[int]{24, 64}}
}

// leading returns a program that leads, with n Nodes in a /16 and a /56.
func leading(t testing.TB, n int, pools ...ipam.Pool) seen {
	if len(pools) == 0 {
		pools = []ipam.Pool{twoFamilies("cluster-cidr", ranges("10.244.0.0/16"), ranges("fd00:10:244::/56"))}
		pools[0].Reserved = ranges("10.244.240.0/20")
	}
	report, layouts := filled(t, n, pools...)
	return seen{reading{
		hasIPAM: true, fine: []string{"every Node has its podCIDRs"},
		at: at, version: "1.2.3", name: "control-1", started: at.Add(-50 * time.Hour), elects: true, ipam: report,
		leader: election.Status{Identity: "control-1_5f1c", Known: true, Leading: true, Leader: "control-1_5f1c", Since: at.Add(-49 * time.Hour), Renewed: at.Add(-1500 * time.Millisecond), Transitions: 4},
		state: controller.State{
			Mode: controller.WriteMode, Leading: true, Planning: true, InFlight: 2,
			Feeds:  []controller.FeedState{{What: "nodes", Listed: true, Revision: 812345}, {What: "servicecidrs", Listed: true, Revision: 812299}},
			Counts: map[controller.Count]int{{Controller: "node-ipam-controller", Verb: "patch", Outcome: controller.Written}: 1203},
			Took:   controller.Seconds{Count: 1203, Sum: 4.2},
			Recent: []controller.Made{
				{At: at.Add(-90 * time.Minute), Object: "Node worker-6", Change: "patch: set podCIDRs 10.244.6.0/24,fd00:10:244:6::/64", Outcome: controller.Refused, Why: "the server refuses it: 409 Conflict"},
				{At: at.Add(-time.Hour), Object: "Node worker-7", Change: "patch: set podCIDRs 10.244.7.0/24,fd00:10:244:7::/64", Outcome: controller.Written},
			},
			Events: controller.EventCounts{Sent: 12},
		},
	}, layouts}
}

// troubled returns a program with every kind of trouble.
func troubled(t testing.TB) seen {
	a, b := twoFamilies("zone-a", ranges("10.1.0.0/20", "10.9.0.0/22"), nil), twoFamilies("zone-b", ranges("10.2.0.0/21"), nil)
	old := twoFamilies("old", ranges("10.64.0.0/18", "10.70.0.0/24"), nil)
	old.Draining = ranges("10.64.0.0/18")
	s := leading(t, 100, a, b, old)
	for i := range 60 {
		s.ipam.Findings = append(s.ipam.Findings, ipam.Finding{
			Node: fmt.Sprintf("worker-%d", i), Code: ipam.Outside, Text: "podCIDR 10.9.9.0/24: outside every pool; add a range that contains it, or delete and re-create this Node",
		})
	}
	s.ipam.Waiting, s.ipam.Retrying, s.ipam.Fences = 31, 4, 17
	s.ipam.Problems = []nodeipam.Problem{{Source: "file", Text: "pools[1].ipv4.ranges[0]: 10.2.0.1/21: has host bits; write 10.2.0.0/21"}}
	s.state.Paused = at.Add(12 * time.Second)
	s.state.Feeds[1].Problem = "the API server did not answer in time (context deadline exceeded)"
	s.leader.Failing = errors.New("renew the Lease kube-system/tulle-controller: connection refused")
	return s
}

// observing returns a program that only observes, and would write n times.
func observing(t testing.TB, n int) seen {
	s := leading(t, 40)
	s.elects, s.leader = false, election.Status{}
	s.state.Mode, s.state.Leading, s.state.Recent = controller.ObserveMode, false, nil
	var writes []controller.Write
	for i := range n {
		writes = append(writes, controller.Write{Object: controller.Ref{Kind: "Node", Name: fmt.Sprintf("worker-%d", i)}, Verb: controller.Patch, Summary: fmt.Sprintf("set podCIDRs 10.244.%d.0/24", i)})
	}
	s.state.Planned = map[string][]controller.Write{nodeipam.Name: writes}
	return s
}

func standing(t testing.TB) seen {
	s := leading(t, 100)
	s.state.Leading, s.leader.Leading, s.leader.Leader, s.leader.Renewed, s.state.Recent = false, false, "control-2_77aa", time.Time{}, nil
	return s
}

func stuck(t testing.TB) seen {
	s := leading(t, 0)
	s.stuck, s.ipam, s.layouts = true, nodeipam.Report{}, nil
	s.state = controller.State{Feeds: s.state.Feeds}
	return s
}

func starting() seen {
	return seen{reading: reading{at: at, name: "control-1", version: "1.2.3", started: at, elects: true, state: controller.State{
		Mode: controller.WriteMode, Feeds: []controller.FeedState{{What: "nodes"}},
	}}}
}

// TestStatusPage: in any condition the page begins with the verdict, and has no more
// parts than a phone's browser draws at once.
func TestStatusPage(t *testing.T) {
	large := twoFamilies("cluster-cidr", ranges("10.0.0.0/8"), ranges("fd00::/40"))
	many := make([]ipam.Pool, 100)
	for i := range many {
		many[i] = twoFamilies(fmt.Sprintf("pool-%d", i), ranges(fmt.Sprintf("10.%d.0.0/16", i)), ranges(fmt.Sprintf("fd00:%d::/48", i)))
	}
	for _, c := range []struct {
		name     string
		seen     seen
		has, not []string
	}{
		{"leading", leading(t, 150), []string{
			"<h1>Leading; every Node has its podCIDRs</h1>", `<header class="good">`, "control-1</bdi> · tulle-controller 1.2.3, started", ">2 days ago</time>",
			"<b>135</b> of 256 used", "<b>16</b> reserved", "<b>7</b> resting", "<code>10.244.0.0/16</code>", "<dt>largest free</dt><dd>/18</dd>", "2027-07-25, in 245 days",
			"<dt>leader</dt><dd>this replica</dd>", "followed up to 812345", "<dt>in flight</dt><dd>2</dd>", "refused: <bdi>the server refuses it", "<dt>mean duration</dt><dd>3.5 ms</dd>",
		}, []string{`class="reasons"`, "Findings on Nodes", "would be made"}},
		{"troubled", troubled(t), []string{
			`<header class="warn">`, "fencing off", "Findings on Nodes", "and 30 more; <code>tulle-controller ipam</code>", "60 findings: 60 outside",
			"write 10.2.0.0/21", "not followed now: the API server did not answer", "<b>writes</b> <bdi>paused for 12 s", "connection refused", "draining",
		}, nil},
		{"observing", observing(t, 40), []string{"<h1>Observing: 40 writes would be made</h1>", "set podCIDRs 10.244.29.0/24", "and 10 more; <code>tulle-controller plan</code>", "none: it only observes"}, []string{"10.244.30.0/24"}},
		{"observing-nothing", observing(t, 0), []string{"<h2>Writes that would be made</h2>\n<p>None.</p>"}, nil},
		{"standing", standing(t), []string{"<h1>Standing by for control-2_77aa</h1>", "<dt>leader</dt><dd>control-2_77aa</dd>"}, []string{`class="reasons"`}},
		{"stuck", stuck(t), []string{"<h1>The main loop does not answer</h1>", `<header class="bad">`, "Unknown: the main loop"}, []string{"<table>"}},
		{"starting", starting(), []string{"<h1>Starting: reading the cluster</h1>", "not listed yet"}, nil},
		{"large", leading(t, 3000, large), []string{"Each cell is up to 128 blocks", "of 65,536 used", "of 16,777,216 used"}, nil},
		{"many", leading(t, 500, many...), []string{"and 170 more; <code>tulle-controller ipam</code>"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			body := render(c.seen)
			if *pages != "" {
				if err := os.WriteFile(filepath.Join(*pages, c.name+".html"), []byte(body), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			for _, part := range c.has {
				if !strings.Contains(body, part) {
					t.Errorf("there is no %q", part)
				}
			}
			for _, part := range append(c.not, "{}", "%!", "<script", "style=") {
				if strings.Contains(body, part) {
					t.Errorf("there is %q", part)
				}
			}
			if n := strings.Count(body, "<"); n > 3000 || len(body) > 250<<10 {
				t.Errorf("%d tags, %d bytes", n, len(body))
			}
		})
	}
}

// hostile returns a program whose texts of foreign origin are text.
func hostile(t testing.TB, text string) seen {
	s := troubled(t)
	text = "x" + text
	s.name, s.leader.Leader, s.leader.Identity, s.leader.Failing = text, text, text, errors.New(text)
	s.leader.Leading = false
	s.state.Feeds[0].Problem = text
	s.state.Recent[0] = controller.Made{Object: text, Change: text, Why: text, Outcome: controller.Failed}
	s.ipam.Findings[0] = ipam.Finding{Node: text, Code: ipam.Overlap, Text: text}
	s.ipam.Problems[0] = nodeipam.Problem{Source: text, Object: controller.Ref{Kind: "Node", Name: text}, Text: text}
	s.ipam.Pools[0].Pool, s.layouts[0].Pool = text, text
	return s
}

// FuzzStatusPage checks that no text changes the structure of the page.
func FuzzStatusPage(f *testing.F) {
	for _, text := range []string{"<script>alert(1)</script>", `"><img src=x onerror=alert(1)>`, "</title></style>", "' onload='x", "{}", "a\u202eb\x00\xff"} {
		f.Add(text)
	}
	plain := render(hostile(f, "plain"))
	f.Fuzz(func(t *testing.T, text string) {
		got := render(hostile(t, text))
		for _, r := range []string{"<", ">", `"`, "'"} {
			if a, b := strings.Count(got, r), strings.Count(plain, r); a != b {
				t.Errorf("there are %d of %s, not %d", a, r, b)
			}
		}
		if strings.ContainsAny(got, "\x00\u202e\u2028") {
			t.Error("the page has characters that reorder others")
		}
	})
}

// TestStatusPageIsServed: a running program serves the page with numbers of its
// cluster, and lets the browser load nothing.
func TestStatusPageIsServed(t *testing.T) {
	c := newCluster(t)
	c.create(0, 3)
	r := c.start()
	r.await("every Node has its podCIDRs")
	w := httptest.NewRecorder()
	kerneltest.Eventually(t, patience, func() error {
		w = httptest.NewRecorder()
		r.mux().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/statusz", nil))
		for _, part := range []string{"<b>3</b> of 1,024 used", "<code>10.64.0.0/14</code>", "<dt>written</dt><dd>3</dd>", "set podCIDRs 10.64.2.0/24"} {
			if !strings.Contains(w.Body.String(), part) {
				return fmt.Errorf("there is no %q in\n%s", part, w.Body)
			}
		}
		return nil
	})
	body := w.Body.String()
	m := regexp.MustCompile(`(?s)<style>(.*?)</style>`).FindStringSubmatch(body)
	sum := sha256.Sum256([]byte(m[1]))
	if want := "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"; !strings.HasPrefix(w.Header().Get("Content-Security-Policy"), want) {
		t.Errorf("the policy is %s, not %s", w.Header().Get("Content-Security-Policy"), want)
	}
	w = httptest.NewRecorder()
	r.mux().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	if w.Code != http.StatusFound || w.Header().Get("Location") != "/statusz" {
		t.Errorf("%d to %s", w.Code, w.Header().Get("Location"))
	}
}

// TestCellsShowEverythingThatIsThere: however small its share, each state of a cell's
// blocks is visible, and the cell is full.
func TestCellsShowEverythingThatIsThere(t *testing.T) {
	for _, p := range []ipam.Part{{Used: 1}, {Used: 1, Free: 1 << 40}, {Used: 1 << 40, Free: 1, Resting: 1, Reserved: 1, Draining: 1}, {Free: 3, Used: 3, Resting: 3}} {
		sum := 0
		for i, h := range heights(p, cell-1) {
			sum += h
			if n := blockStates[i].part(p); h < 0 || (h > 0) != (n > 0) {
				t.Errorf("%+v: %s has height %d", p, blockStates[i].name, h)
			}
		}
		if sum != cell-1 {
			t.Errorf("%+v: the heights add up to %d", p, sum)
		}
	}
}

func TestPoolsThatFillUpAreReasons(t *testing.T) {
	usage := func(name string, free, draining uint64, full time.Duration) ipam.PoolUsage {
		u := ipam.PoolUsage{Pool: name, Total: 100, Used: 100 - free - draining, Free: free, Draining: draining}
		if full > 0 {
			u.Forecast.Full = at.Add(full)
		}
		return u
	}
	r := leading(t, 0).reading
	r.ipam.Pools = []ipam.PoolUsage{usage("full", 0, 0, 0), usage("empties", 0, 9, 0), usage("soon", 5, 0, soon-time.Hour), usage("later", 5, 0, soon), usage("fine", 5, 0, 0)}
	var got []string
	for _, reason := range r.reasons() {
		got = append(got, reason.Text)
	}
	if want := []string{"full, IPv4: full", "soon, IPv4: will be full on 2026-12-22 at its present growth"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestManyProblemsAreShortened has many Services without a load balancer. They hide nothing else.
func TestManyProblemsAreShortened(t *testing.T) {
	r := leading(t, 0).reading
	r.services = &service.Report{Leftovers: []cloudbalancer.Leftover{{Name: "a1", Service: "default/gone"}}}
	for i := range 3 * fewProblems {
		r.services.Rows = append(r.services.Rows, service.Row{Service: fmt.Sprint("default/", i), Code: service.Failing, Text: "wrong"})
	}
	all := r.reasons()
	if len(all) != fewProblems+2 {
		t.Fatalf("%d reasons: %v", len(all), all)
	}
	if more, last := all[fewProblems].Text, all[fewProblems+1].Text; !strings.HasPrefix(more, "more Services") || !strings.Contains(last, "default/gone") {
		t.Errorf("%q, %q", more, last)
	}
}
