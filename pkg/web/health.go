package web

import (
	"context"
	"fmt"
	"net/http"
	"strings"
)

// healthz reports whether the main loop answers. If it does not, only a restart
// helps.
func (s *site) healthz(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), answerLimit)
	defer cancel()
	if !s.Alive(ctx) {
		http.Error(w, fmt.Sprintf("the daemon's main loop did not answer within %s", answerLimit), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}

// readyz writes a line for every check, as Kubernetes does.
func (s *site) readyz(w http.ResponseWriter, r *http.Request) {
	now := read(r.Context(), s.Source, answerLimit)
	verbose := r.URL.Query().Has("verbose")
	var b strings.Builder
	for _, c := range now.checks() {
		switch {
		case !c.OK:
			fmt.Fprintf(&b, "[-]%s failed: %s\n", c.Name, c.Text)
		case verbose:
			fmt.Fprintf(&b, "[+]%s ok: %s\n", c.Name, c.Text)
		default:
			fmt.Fprintf(&b, "[+]%s ok\n", c.Name)
		}
	}
	if now.Ready {
		fmt.Fprint(w, b.String(), "readyz check passed\n")
		return
	}
	w.WriteHeader(http.StatusServiceUnavailable)
	fmt.Fprint(w, b.String(), "readyz check failed\n")
}
