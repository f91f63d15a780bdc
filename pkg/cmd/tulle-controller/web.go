package main

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/tulle-net/tulle/pkg/httpd"
	"github.com/tulle-net/tulle/pkg/page"
)

// Limits of concurrent requests that are expensive.
const (
	mostPages   = 2
	mostScrapes = 2
)

// mux returns what is served over HTTP.
func (p *process) mux() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", httpd.Health("tulle-controller", condition{p}.Alive))
	mux.HandleFunc("GET /healthz/leaderElection", httpd.Text(p.serveElection))
	mux.HandleFunc("GET /readyz", httpd.Text(p.serveReady))
	mux.HandleFunc("GET /configz", p.serveConfig)
	mux.Handle("GET /statusz", httpd.AtOnce(mostPages, http.HandlerFunc(p.servePage)))
	mux.Handle("GET /{$}", http.RedirectHandler("/statusz", http.StatusFound))
	mux.Handle("GET /metrics", httpd.AtOnce(mostScrapes, metricsHandler(p.read)))
	return mux
}

func (p *process) serveElection(w http.ResponseWriter, r *http.Request) {
	if why := p.glance(r.Context()).leaderElection(); why != "" {
		http.Error(w, why, http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}

func (p *process) serveReady(w http.ResponseWriter, r *http.Request) {
	now := p.glance(r.Context())
	text := page.Lines(now.checks(), r.URL.Query().Has("verbose"))
	if now.ready() {
		fmt.Fprint(w, text, "readyz check passed\n")
		return
	}
	w.WriteHeader(http.StatusServiceUnavailable)
	fmt.Fprint(w, text, "readyz check failed\n")
}

// serveConfig writes the value of every flag, as controller managers do.
func (p *process) serveConfig(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"tulle-controller": p.settings.values})
}
