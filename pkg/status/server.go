package status

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"time"
)

// Source is a daemon that can be asked.
type Source interface {
	// Report reports what there is to report, although the main loop may be stuck.
	Report(ctx context.Context) Report
	Peers(ctx context.Context) ([]Peer, error)
	Leases(ctx context.Context) (Leases, error)
	Explain(ctx context.Context, a netip.Addr) (Explanation, error)
}

// answerLimit is how long an answer may take: a large network takes a moment.
const answerLimit = 10 * time.Second

func handler(s Source) http.Handler {
	mux := http.NewServeMux()
	handle := func(path string, ask func(ctx context.Context, r *http.Request) (any, error)) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			ctx, cancel := context.WithTimeout(r.Context(), answerLimit)
			defer cancel()
			answer, err := ask(ctx, r)
			var bad *badRequest
			switch {
			case errors.As(err, &bad):
				http.Error(w, err.Error(), http.StatusBadRequest)
			case err != nil:
				http.Error(w, err.Error(), http.StatusServiceUnavailable)
			default:
				w.Header().Set("Content-Type", "application/json")
				_ = json.NewEncoder(w).Encode(answer) // who has gone does not wait for it
			}
		})
	}
	handle("/status", func(ctx context.Context, _ *http.Request) (any, error) { return s.Report(ctx), nil })
	handle("/peers", func(ctx context.Context, _ *http.Request) (any, error) { return s.Peers(ctx) })
	handle("/leases", func(ctx context.Context, _ *http.Request) (any, error) { return s.Leases(ctx) })
	handle("/explain", func(ctx context.Context, r *http.Request) (any, error) {
		a, err := netip.ParseAddr(r.URL.Query().Get("ip"))
		if err != nil || a.Zone() != "" {
			return nil, &badRequest{fmt.Errorf("%.60q is not an IP address", r.URL.Query().Get("ip"))}
		}
		return s.Explain(ctx, a.Unmap())
	})
	return mux
}

// badRequest is the fault of who asks.
type badRequest struct{ error }
