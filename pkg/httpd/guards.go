package httpd

import (
	"net/http"
	"net/netip"
	"strings"
)

// Handler returns mux behind the guards. It adds the profiles if Options.Pprof is set.
func Handler(o Options, mux *http.ServeMux) http.Handler {
	if o.Pprof {
		profiles(mux)
	}
	var h http.Handler = mux
	if o.Address.Unmap().IsLoopback() {
		h = onlyLocal(h)
	}
	return guarded(h)
}

// guarded adds headers that forbid caching, content sniffing and referrers.
func guarded(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Referrer-Policy", "no-referrer")
		h.ServeHTTP(w, r)
	})
}

// AtOnce answers at most n requests at a time, and rejects the others.
func AtOnce(n int, h http.Handler) http.Handler {
	room := make(chan struct{}, n)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case room <- struct{}{}:
			defer func() { <-room }()
			h.ServeHTTP(w, r)
		default:
			w.Header().Set("Retry-After", "1")
			http.Error(w, "too many requests at once; retry", http.StatusServiceUnavailable)
		}
	})
}

// onlyLocal rejects requests for other host names. Otherwise a page of another site, open in
// a browser on this host, could point its own name at this server and read it (DNS
// rebinding).
func onlyLocal(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !local(r.Host) {
			http.Error(w, "this server is for this host alone; use an IP address or localhost in the URL", http.StatusMisdirectedRequest)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// local reports whether a Host header names an IP address or localhost. It accepts a missing
// header: the check is for browsers, which always send one.
func local(host string) bool {
	if host == "" {
		return true
	}
	if i := strings.LastIndexByte(host, ':'); i >= 0 && strings.IndexByte(host[i:], ']') < 0 {
		host = host[:i]
	}
	if in, ok := strings.CutPrefix(host, "["); ok {
		host = strings.TrimSuffix(in, "]")
	} else if strings.EqualFold(strings.TrimSuffix(host, "."), "localhost") {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.Zone() == ""
}
