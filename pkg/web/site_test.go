package web

import "testing"

func TestMethodsAndPaths(t *testing.T) {
	for _, c := range []struct {
		method, path string
		pprof        bool
		want         int
	}{
		{"HEAD", "/healthz", false, 200}, {"HEAD", "/statusz", false, 200}, {"HEAD", "/metrics", false, 200},
		{"POST", "/healthz", false, 405}, {"PUT", "/readyz", false, 405}, {"POST", "/metrics", false, 405}, {"DELETE", "/statusz", false, 405}, {"POST", "/", false, 405},
		{"GET", "/", false, 302}, {"GET", "/x", false, 404}, {"GET", "/healthz/", false, 404}, {"GET", "/readyz/lease", false, 404},
		{"GET", "/debug/pprof/", false, 404}, {"GET", "/debug/pprof/heap", false, 404}, {"GET", "/debug/pprof/cmdline", false, 404}, {"GET", "/debug/vars", true, 404},
		{"GET", "/debug/pprof/", true, 200}, {"GET", "/debug/pprof/heap", true, 200}, {"GET", "/debug/pprof/goroutine", true, 200}, {"GET", "/debug/pprof/symbol", true, 200},
		{"GET", "/debug/pprof/cmdline", true, 403}, {"POST", "/debug/pprof/symbol", true, 405}, {"GET", "/debug/pprof/nothing", true, 404},
	} {
		o := beyond
		o.Pprof = c.pprof
		w := serveTo(t, o, well(2), c.method, c.path)
		if w.Code != c.want {
			t.Errorf("%s %s: %d, not %d: %.80s", c.method, c.path, w.Code, c.want, w.Body)
		}
		if w.Header().Get("Cache-Control") != "no-store" || w.Header().Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s %s: headers are %v", c.method, c.path, w.Header())
		}
	}
}
