package web

import (
	"context"
	"net/http"

	"github.com/tulle-net/tulle/pkg/httpd"
	"github.com/tulle-net/tulle/pkg/page"
)

// Options are where to serve, and what.
type Options struct {
	httpd.Options
	Program string // what the page calls the daemon; its commands show more
	Peers   bool   // also serve metrics of each peer
}

// Serve answers requests until ctx ends. It logs once why it cannot listen, and
// retries.
func Serve(ctx context.Context, o Options, s Source) error {
	return httpd.Serve(ctx, o.Options, newMux(o, s))
}

// site serves the state of one daemon.
type site struct {
	Source
	program string
	policy  string
}

// Limits of concurrent requests that are expensive.
const (
	mostPages   = 2
	mostScrapes = 2
)

func newMux(o Options, source Source) *http.ServeMux {
	s := &site{source, o.Program, page.Policy(style)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", httpd.Health("the daemon", s.Alive))
	mux.HandleFunc("GET /readyz", httpd.Text(s.readyz))
	mux.Handle("GET /metrics", httpd.AtOnce(mostScrapes, metricsHandler(source, o.Peers)))
	mux.Handle("GET /statusz", httpd.AtOnce(mostPages, http.HandlerFunc(s.statusz)))
	mux.Handle("GET /{$}", http.RedirectHandler("/statusz", http.StatusFound))
	return mux
}
