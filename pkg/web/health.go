package web

import (
	"fmt"
	"net/http"

	"github.com/tulle-net/tulle/pkg/page"
)

// readyz writes a line for every check.
func (s *site) readyz(w http.ResponseWriter, r *http.Request) {
	now := read(r.Context(), s.Source, answerLimit)
	text := page.Lines(now.checks(), r.URL.Query().Has("verbose"))
	if now.Ready {
		fmt.Fprint(w, text, "readyz check passed\n")
		return
	}
	w.WriteHeader(http.StatusServiceUnavailable)
	fmt.Fprint(w, text, "readyz check failed\n")
}
