package web

import (
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/page"
	"github.com/tulle-net/tulle/pkg/status"
)

func TestHealthzReportsOnlyTheLoop(t *testing.T) {
	if w := get(t, ill(), "/healthz"); w.Code != http.StatusOK || w.Body.String() != "ok\n" {
		t.Errorf("a node that is not ready, with a loop that answers: %d %s", w.Code, w.Body)
	}
	f := well(3)
	f.stuck = true
	if w := get(t, f, "/healthz"); w.Code != http.StatusServiceUnavailable || w.Body.String() != "the daemon's main loop did not answer within 2s\n" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestReadyzHasALineForEachCheck: each check has a line, with all reasons if it fails.
func TestReadyzHasALineForEachCheck(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*fake)
		want   []string // lines of failing checks
	}{
		{"well", func(*fake) {}, nil},
		{"stuck", func(f *fake) { f.stuck = true }, []string{
			"[-]loop failed: the daemon's main loop did not answer: context deadline exceeded", "[-]config failed: " + status.Unknown, "[-]interface failed: " + status.Unknown,
			"[-]lease failed: " + status.Unknown, "[-]peers failed: " + status.Unknown, "[-]node failed: " + status.Unknown,
		}},
		{"files", func(f *fake) { f.lack("files", "/a: full", "/b: no\nspace") }, []string{"[-]files failed: /a: full; /b: no space"}},
		{"two", func(f *fake) { f.lack("lease", "one"); f.lack("node", "two", "three") }, []string{"[-]lease failed: one", "[-]node failed: two; three"}},
		{"degraded", func(f *fake) {
			f.state.Checks[6].Degraded = []string{"no nftables"}
			f.state.Ready = false
		}, []string{"[-]firewall failed: no nftables"}},
		{"forged", func(f *fake) {
			f.lack("node", "x\n[+]node ok\r\u2028y\x00"+strings.Repeat("z", 1000))
		}, []string{"[-]node failed: x [+]node ok  y" + strings.Repeat("z", page.Longest-len("x [+]node ok  y")-1) + "…"}},
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

// TestAllPagesAgreeOnReadiness: the page, /readyz and the metrics show the daemon's
// own checks, for random ones.
func TestAllPagesAgreeOnReadiness(t *testing.T) {
	for range 100 {
		f := well(3)
		for i := range f.state.Checks {
			switch rand.IntN(12) {
			case 0:
				f.lack(f.state.Checks[i].Name, "a reason")
			case 1:
				f.state.Checks[i].Degraded = []string{"a reason"}
			}
		}
		f.stuck = rand.IntN(10) == 0
		s := f.State(t.Context())
		f.state.Ready = s.Checks.Ready()
		ready := s.Checks.Ready()
		if got := get(t, f, "/readyz").Code == http.StatusOK; got != ready {
			t.Errorf("/readyz says %t: %+v", got, s.Checks)
		}
		if got := strings.Contains(get(t, f, "/statusz").Body.String(), "<h1>Ready</h1>"); got != ready {
			t.Errorf("the page says %t: %+v", got, s.Checks)
		}
		if got := strings.Contains(get(t, f, "/metrics").Body.String(), "\ntulle_ready 1\n"); got != ready {
			t.Errorf("the metric says %t: %+v", got, s.Checks)
		}
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
