package web

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/status"
)

func TestHealthz(t *testing.T) {
	if w := get(t, ill(), "/healthz"); w.Code != http.StatusOK || w.Body.String() != "ok\n" {
		t.Errorf("a node that is not ready, and turns: %d %s", w.Code, w.Body)
	}
	f := well(3)
	f.stuck = true
	if w := get(t, f, "/healthz"); w.Code != http.StatusServiceUnavailable || w.Body.String() != "the daemon's main loop did not answer within 2s\n" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// Every check fails for its reasons, and for no other.
func TestReadyz(t *testing.T) {
	host := status.Failing{What: "link tulle.1", Owner: "host", Why: "file exists", Since: time.Now()}
	peers := status.Failing{What: "route 10.5.4.0/24", Owner: "10.5.4.0-24", Why: "file exists", Since: time.Now()}
	for _, c := range []struct {
		name   string
		change func(*fake)
		want   []string // lines of what fails
	}{
		{"well", func(*fake) {}, nil},
		{"stuck", func(f *fake) { f.stuck = true }, []string{
			"[-]loop failed: the daemon's main loop did not answer: context deadline exceeded", "[-]config failed: " + unknown, "[-]interface failed: " + unknown, "[-]lease failed: " + unknown,
		}},
		{"no config", func(f *fake) { f.state.Network = status.Network{} }, []string{"[-]config failed: no network config yet"}},
		{"no interface", func(f *fake) { f.state.Interfaces = nil }, []string{"[-]interface failed: no uplink"}},
		{"no lease", func(f *fake) { f.state.Lease = nil }, []string{"[-]lease failed: no subnet leased"}},
		{"no list", func(f *fake) { f.state.Listed = false }, []string{"[-]peers failed: the full list of leases has not arrived"}},
		{"no resync yet", func(f *fake) { f.state.Kernel.LastResync = time.Time{} }, []string{"[-]kernel failed: no full resync yet"}},
		{"last resync long ago", func(f *fake) { f.state.Kernel.LastResync = before(20 * time.Minute) }, []string{"[-]kernel failed: last full resync 20 min ago"}},
		{"a peer just came", func(f *fake) { f.state.Kernel.InSync, f.state.Kernel.Since = false, before(time.Second) }, nil},
		{"out of sync", func(f *fake) {
			f.state.Kernel.InSync, f.state.Kernel.Since, f.state.Kernel.Problems = false, before(time.Minute), []string{"dump failed: busy"}
		}, []string{"[-]kernel failed: not in sync since 60 s ago; dump failed: busy"}},
		{"a bad peer", func(f *fake) {
			f.state.Kernel.InSync, f.state.Kernel.Since, f.state.Kernel.Failing = false, before(time.Hour), []status.Failing{peers}
		}, nil},
		{"the host's own", func(f *fake) {
			f.state.Kernel.InSync, f.state.Kernel.Failing = false, []status.Failing{peers, host}
		}, []string{"[-]kernel failed: refuses link tulle.1: file exists"}},
		{"no rules yet", func(f *fake) { f.state.Firewall.Written = false }, []string{"[-]firewall failed: rules not written yet"}},
		{"wrong rules", func(f *fake) { f.state.Firewall.Problem = "no nftables" }, []string{"[-]firewall failed: no nftables"}},
		{"files", func(f *fake) {
			f.state.Files = []status.Problem{{What: "/a", Why: "full"}, {What: "/b", Why: "no\nspace"}}
		}, []string{"[-]files failed: /a: full; /b: no space"}},
		{"waiting", func(f *fake) { f.state.Ready, f.state.Missing = false, []string{"one", "two"} }, []string{"[-]node failed: one; two"}},
		{"forged", func(f *fake) {
			f.state.Ready, f.state.Missing = false, []string{"x\n[+]node ok\r\u2028y\x00" + strings.Repeat("z", 1000)}
		}, []string{"[-]node failed: x [+]node ok  y" + strings.Repeat("z", longest-len("x [+]node ok  y")-1) + "…"}},
		{"the store is unreachable", func(f *fake) {
			f.state.Remembered, f.state.Store.Failing = since(time.Minute), []status.Problem{{What: "watching", Why: "no answer"}}
		}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := well(3)
			c.change(&f)
			w := get(t, f, "/readyz")
			code, last := http.StatusOK, "readyz check passed"
			if c.want != nil {
				code, last = http.StatusServiceUnavailable, "readyz check failed"
			}
			lines := strings.Split(strings.TrimSuffix(w.Body.String(), "\n"), "\n")
			var failed []string
			for _, l := range lines {
				if strings.HasPrefix(l, "[-]") {
					failed = append(failed, l)
				}
			}
			if w.Code != code || lines[len(lines)-1] != last || strings.Join(failed, "\n") != strings.Join(c.want, "\n") {
				t.Errorf("%d:\n%s\nwant %d:\n%s", w.Code, w.Body, code, strings.Join(c.want, "\n"))
			}
			if len(lines) != 10 {
				t.Errorf("%d lines:\n%s", len(lines), w.Body)
			}
		})
	}
}

func TestReadyzVerbose(t *testing.T) {
	w := get(t, well(3), "/readyz?verbose")
	const want = `[+]loop ok: responding
[+]config ok: 10.64.0.0/10, fd00:5::/48 by vxlan
[+]interface ok: eth0 10.0.0.1, eth0 2001:db8::1
[+]lease ok: 10.127.3.0/24, fd00:5:0:3::/64
[+]peers ok: 3 peers
[+]kernel ok: 14 objects
[+]firewall ok: in sync
[+]files ok: up to date
[+]node ok: nothing missing
readyz check passed
`
	if w.Code != http.StatusOK || w.Body.String() != want {
		t.Errorf("%d: %s", w.Code, w.Body)
	}
}

func FuzzLine(f *testing.F) {
	f.Add("a\nb\u202ec\xff", 3)
	f.Fuzz(func(t *testing.T, text string, most int) {
		if most < 1 || most > 1000 {
			return
		}
		got := line(text, most)
		if n := len([]rune(got)); n > most || strings.ContainsAny(got, "\n\r\x00\u2028\u202e") {
			t.Errorf("%q", got)
		}
		if again := line(got, most); again != got {
			t.Errorf("%q becomes %q", got, again)
		}
	})
}
