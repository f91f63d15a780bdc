package httpd

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// AnswerLimit is the time in which the program's main loop must answer.
const AnswerLimit = 2 * time.Second

// Health serves whether the program's main loop answers: if not, only a restart helps. alive
// reports whether the loop answered before its context ended.
func Health(program string, alive func(context.Context) bool) http.HandlerFunc {
	return Text(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), AnswerLimit)
		defer cancel()
		if !alive(ctx) {
			http.Error(w, fmt.Sprintf("%s's main loop did not answer within %s", program, AnswerLimit), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
}

// Text sets the content type of an answer to plain text.
func Text(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		h(w, r)
	}
}
