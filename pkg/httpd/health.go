package httpd

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// AnswerLimit is how long the program's main loop may take to answer.
const AnswerLimit = 2 * time.Second

// Health answers whether the program's main loop answers: if not, only a restart
// helps. alive reports that within its context.
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

// Text declares an answer to be plain text.
func Text(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		h(w, r)
	}
}
