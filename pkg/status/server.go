package status

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"time"
)

// Source is a daemon that can be asked.
type Source interface {
	// Report reports what there is to report, although the main loop may be stuck.
	Report(ctx context.Context) Report
	Peers(ctx context.Context) ([]Peer, error)
	Explain(ctx context.Context, a netip.Addr) (Explanation, error)
}

// answerLimit is how long an answer may take: a large network takes a moment.
const answerLimit = 10 * time.Second

// Serve answers on a unix socket at path until ctx ends. Root alone may ask.
func Serve(ctx context.Context, path string, s Source) error {
	l, err := listen(path)
	if err != nil {
		return fmt.Errorf("serve status: %w", err)
	}
	server := &http.Server{
		Handler:     handler(s),
		ReadTimeout: answerLimit, WriteTimeout: 2 * answerLimit,
		MaxHeaderBytes: 1 << 14,
		BaseContext:    func(net.Listener) context.Context { return ctx },
	}
	defer context.AfterFunc(ctx, func() { server.Close() })()
	if err := server.Serve(l); ctx.Err() == nil {
		return fmt.Errorf("serve status at %s: %w", path, err)
	}
	return nil
}

// listen takes the place of a socket that a daemon left which has ended.
func listen(path string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	if info, err := os.Lstat(path); err == nil {
		if info.Mode().Type() != fs.ModeSocket {
			return nil, fmt.Errorf("%s is not a socket; remove it, or choose another path", path)
		}
		if conn, err := net.DialTimeout("unix", path, time.Second); err == nil {
			conn.Close()
			return nil, fmt.Errorf("another tulled answers at %s", path)
		}
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

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
