package web

import (
	"fmt"
	"net/http"
	"strings"
)

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
