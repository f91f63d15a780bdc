package web

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/page"
	"github.com/tulle-net/tulle/pkg/probe"
	"github.com/tulle-net/tulle/pkg/status"
	"github.com/tulle-net/tulle/pkg/test/bubbletest"
)

func stuck() fake {
	f := well(3)
	f.stuck = true
	return f
}

// justLeased returns a node that has just acquired its lease.
func justLeased() fake {
	f := well(1)
	now := time.Now()
	f.state.Lease.Since, f.state.Lease.Renewed = &now, &now
	return f
}

// TestPageShowsTheVerdictFirst: in any condition the page begins with the verdict, and has no more parts
// than a phone's browser draws at once.
func TestPageShowsTheVerdictFirst(t *testing.T) {
	for _, c := range []struct {
		name string
		fake fake
		has  []string
		not  []string
	}{
		{"alone", well(0), []string{"<h1>Ready</h1>", "<b>0</b> in sync", "<p>None.</p>", "none yet"}, []string{`class="reasons"`}},
		{"three", well(3), []string{"<h1>Ready</h1>", "worker-3", "<b>3</b> in sync", "10.127.3.0/24", "https://192.0.2.9:2379", "1430", ">1.81 ms</text>", "<dt>mean round trip</dt><dd>0.85 ms</dd>"}, []string{`class="reasons"`, "Left out", "up to 1 ms"}},
		{"twelve", troubled(12), []string{"<h1>Ready, with problems</h1>", "worker-12</text>", "1 peer unroutable in at least one family", "<b>1</b> probes fail", "fail for 1 peer, worker-10 (10.64.9.0-24): its host does not answer"}, nil},
		{"well300", well(300), []string{"<b>300</b> in sync", "Left out: 288 in sync.", "then the slowest", ">180 ms</td>", "up to 100 ms", "99% within"}, nil},
		{"300", troubled(300), []string{"<b>16</b> not in sync", "<b>4</b> probes fail", "1 checksums, 1 down, 1 filtered, 1 mtu", "refuses 16 objects, first route 10.64.5.0/24 of 10.64.5.0-24"}, []string{"Each cell"}},
		{"400", troubled(400), []string{"Each cell is a peer,"}, nil},
		{"10000", troubled(10000), []string{"<b>9,282</b> in sync", "Each cell is 25 peers, in the order of subnets; the fill shows how many have problems, the shade the longest round trip of the others.", "Left out: 59 unroutable, 121 probes fail, 508 not in sync, 9,282 in sync."}, nil},
		{"well10000", well(10000), []string{"<b>10,000</b> in sync", "Left out: 9,988 in sync."}, nil},
		{"100000", troubled(100000), []string{"Each cell is 241 peers,"}, nil},
		{"ill", ill(), []string{
			"<h1>Not ready</h1>", "no subnet: out of subnets", "no space left on device", "10.9.0.0-24 rejected: no part of", "the kernel has no nftables",
			"another vxlan device has VNI 1", "context deadline exceeded", "using the network as saved at 20",
			"1m4.2s behind most others", "through eth1, but its uplink is eth0",
		}, nil},
		{"stuck", stuck(), []string{"<h1>The daemon&#39;s main loop does not answer</h1>", "<p>Unknown:"}, []string{"<table>"}},
		{"starting", fake{}, []string{"<h1>Not ready</h1>", "disabled"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) { checkPage(t, c.fake, c.has, c.not) })
	}
}

// TestPageOfANewLease: durations below a second have words of their own.
func TestPageOfANewLease(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		checkPage(t, justLeased(), []string{`<dt>held for</dt><dd><time`, ">less than 1 s</time>", ">just now</time>"}, []string{"since just now", "for just now"})
	})
}

// checkPage checks that the page of a node has the parts of has, none of not, and few tags.
func checkPage(t *testing.T, f fake, has, not []string) {
	t.Helper()
	w := get(t, f, "/statusz")
	body := w.Body.String()
	if w.Code != http.StatusOK {
		t.Fatalf("%d: %s", w.Code, body)
	}
	for _, part := range has {
		if !strings.Contains(body, part) {
			t.Errorf("there is no %q", part)
		}
	}
	for _, part := range append(not, "{}", "%!") {
		if strings.Contains(body, part) {
			t.Errorf("there is %q", part)
		}
	}
	if n := strings.Count(body, "<"); n > 4000 || len(body) > 100<<10 {
		t.Errorf("%d tags, %d bytes", n, len(body))
	}
}

// hostile returns a node whose names of foreign origin are text. They must not change
// the page's parts or their order.
func hostile(text string) fake {
	f := ill()
	s := &f.state
	for i, p := range []func(status.Peer) status.Peer{behind, lost, behind} {
		bad := p(peer(i))
		bad.Name, bad.Problem, bad.Key = "x"+text, "x"+text, "x"+text
		bad.Probes = &status.PeerProbes{Cause: "x" + text, Problem: "x" + text, Since: since(time.Minute)}
		f.peers[i] = bad
	}
	s.Name, s.NodeID, s.Version = "x"+text, "x"+text, "x"+text
	s.Files[0], s.Rejected[0] = status.Problem{What: "x" + text, Why: "x" + text}, status.Rejection{Key: "x" + text, Why: "x" + text}
	f.lack("node", "x"+text)
	s.Checks[1].Text = "x" + text
	s.Store.Endpoints[0], s.Store.Failing[0] = "x"+text, status.Problem{What: "x" + text, Why: "x" + text}
	s.Network.Backend, s.Firewall.Problem, s.Kernel.Problems[0] = "x"+text, "x"+text, "x"+text
	s.Kernel.Failing[0].What, s.Kernel.Failing[0].Owner, s.Kernel.Failing[0].Why = "x"+text, "x"+text, "x"+text
	s.Interfaces[0].Name, s.Interfaces[0].Why = "x"+text, "x"+text
	s.Kernel.Healed["x"+text] = 3
	s.Fights[0].Kind, s.Fights[0].What, s.Fights[0].Owner = "x"+text, "x"+text, "x"+text
	s.Probes.Problems[0], s.Probes.Examples[0] = "x"+text, status.Problem{What: "x" + text, Why: "x" + text}
	s.Probes.Failing["x"+text], s.Probes.Failed["x"+text] = 1, 1
	return f
}

func render(t testing.TB, f fake) string {
	t.Helper()
	var d page.Document
	read(t.Context(), f, pageLimit).view("tulled", f.peers, true).write(&d)
	return d.String()
}

var texts = []string{
	"<script>alert(1)</script>", `"><img src=x onerror=alert(1)>`, "</title><script>", "</style><script>", "' onload='x", "]]>--><svg/onload=x>", "javascript:alert(1)",
	"{{.Title}}", "&lt;script&gt;", "\u202egnp.exe", "a\x00b\xffc", "\u2028</svg>",
}

func TestHostileNames(t *testing.T) {
	plain := render(t, hostile("plain"))
	for _, text := range texts {
		got := render(t, hostile(text))
		for _, r := range []string{"<", ">", `"`, "'"} {
			if a, b := strings.Count(got, r), strings.Count(plain, r); a != b {
				t.Errorf("%q: there are %d of %s, not %d", text, a, r, b)
			}
		}
		for _, bad := range []string{"<script", "<img", "\x00", "\u202e", "\u2028"} {
			if strings.Contains(got, bad) {
				t.Errorf("%q: the page has %q", text, bad)
			}
		}
	}
}

// FuzzPage checks that no text changes the structure of the page.
func FuzzPage(f *testing.F) {
	for _, text := range texts {
		f.Add(text)
	}
	plain := render(f, hostile("plain"))
	f.Fuzz(func(t *testing.T, text string) {
		got := render(t, hostile(text))
		for _, r := range []string{"<", ">", `"`, "'"} {
			if a, b := strings.Count(got, r), strings.Count(plain, r); a != b {
				t.Errorf("there are %d of %s, not %d", a, r, b)
			}
		}
	})
}

// TestPagePolicy: a browser may use the page's own style, and load nothing else.
func TestPagePolicy(t *testing.T) {
	w := get(t, troubled(300), "/statusz")
	body := w.Body.String()
	m := regexp.MustCompile(`(?s)<style>(.*?)</style>`).FindStringSubmatch(body)
	if m == nil {
		t.Fatal("there is no style")
	}
	sum := sha256.Sum256([]byte(m[1]))
	policy := w.Header().Get("Content-Security-Policy")
	want := fmt.Sprintf("default-src 'none'; style-src 'sha256-%s'; img-src data:; ", base64.StdEncoding.EncodeToString(sum[:]))
	if !strings.HasPrefix(policy, want) || !strings.Contains(policy, "frame-ancestors 'none'") {
		t.Errorf("the policy is %s, not %s", policy, want)
	}
	for name, want := range map[string]string{
		"Content-Type": "text/html; charset=utf-8", "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
	} {
		if got := w.Header().Get(name); got != want {
			t.Errorf("%s is %q, not %q", name, got, want)
		}
	}
	if m := regexp.MustCompile(`(?i)(style=|<script|\son\w+=|src=|url\(|@import|href="(?:https?:)?//)`).FindString(body); m != "" {
		t.Errorf("the page has %q", m)
	}
}

// TestRowsShowTroubleFirst: the table shows peers with trouble first, as many as fit, and counts the
// ones left out.
func TestRowsShowTroubleFirst(t *testing.T) {
	many := well(100)
	for i := range 40 {
		many.peers[i+50] = behind(many.peers[i+50])
	}
	many.peers[99] = lost(many.peers[99])
	lesser := well(100)
	for i := range 60 {
		lesser.peers[i] = lost(lesser.peers[i])
	}
	for i := range 3 {
		lesser.peers[i+60] = behind(lesser.peers[i+60])
		lesser.peers[i+70] = probed(lesser.peers[i+70], 0, probe.Filtered)
	}
	for _, c := range []struct {
		name  string
		peers []status.Peer
		want  string // the states, each with the length of its run
		left  string
	}{
		{"none", nil, "", ""},
		{"few", troubled(8).peers, "unroutable 1, not in sync 1, in sync 6", ""},
		{"well", well(100).peers, "in sync 12", "88 in sync"},
		{"as many as fit", well(mostRows).peers, "in sync 30", ""},
		{"trouble", many.peers, "unroutable 1, not in sync 29", "11 not in sync, 59 in sync"},
		{"some of each", lesser.peers, "unroutable 24, probes fail 3, not in sync 3", "36 unroutable, 34 in sync"},
	} {
		rows, left := reading{}.rows(c.peers)
		got, last, n := "", "", 0
		for _, r := range append(rows, peerRow{}) {
			if r.State != last {
				if n > 0 {
					got += pick(got == "", "", ", ") + fmt.Sprintf("%s %d", last, n)
				}
				last, n = r.State, 0
			}
			n++
		}
		if got != c.want || left != c.left {
			t.Errorf("%s: %q, left out %q; want %q, %q", c.name, got, left, c.want, c.left)
		}
	}
}

// TestRowsShowTheSlowest: of many peers in sync the table shows the slowest; a few
// stay in the order of their subnets. A peer has all its reasons.
func TestRowsShowTheSlowest(t *testing.T) {
	many := well(100).peers
	many[40], many[60] = probed(many[40], 250, probe.Well), probed(many[60], 31.25, probe.Well)
	many[70].Probes = nil
	both := behind(probed(peer(80), 0.5, probe.SmallMTU))
	many[80] = both
	rows, _ := reading{at: time.Now()}.rows(many)
	got := ""
	for _, r := range rows[:4] {
		got += fmt.Sprintf("%s %s %s; ", r.Name, r.State, r.RoundTrip)
	}
	if want := "worker-81 probes fail 0.50 ms; worker-41 in sync 250 ms; worker-61 in sync 31.2 ms; worker-32 in sync 23.6 ms; "; got != want {
		t.Errorf("%s\nnot %s", got, want)
	}
	if w := rows[0].Whys; len(w) != 2 || w[0] != (why{both.Problem, "for 3 min"}) || w[1] != (why{both.Probes.Problem, "for 7 min"}) {
		t.Errorf("%+v", w)
	}
	if r := rows[0]; r.Tried != "probed 40 s ago" {
		t.Errorf("%+v", r)
	}
	rows, _ = reading{}.rows(many[20:50])
	if rows[0].Name != "worker-21" || rows[20].RoundTrip != "250 ms" {
		t.Errorf("a few are in another order: %+v", rows)
	}
}
