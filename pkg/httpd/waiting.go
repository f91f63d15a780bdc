package httpd

import (
	"container/list"
	"context"
	"net"
	"net/http"
	"sync"
)

// waiting limits the connections without a complete request: they sent nothing, or part of
// a request, or nothing since their last answer. Beyond most, it closes the one that has
// waited longest. So clients that only open connections cannot block other clients.
type waiting struct {
	most int

	mu    sync.Mutex
	order *list.List // of net.Conn, the longest waiting first
	conns map[net.Conn]*list.Element
}

func newWaiting(most int) *waiting {
	return &waiting{most: most, order: list.New(), conns: make(map[net.Conn]*list.Element)}
}

// connKey is the key of a request's context that holds its net.Conn.
type connKey struct{}

// guard installs w in a server.
func (w *waiting) guard(s *http.Server) {
	h := s.Handler
	s.Handler = http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		if conn, ok := r.Context().Value(connKey{}).(net.Conn); ok {
			w.remove(conn)
		}
		h.ServeHTTP(out, r)
	})
	s.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		return context.WithValue(ctx, connKey{}, conn)
	}
	s.ConnState = func(conn net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew, http.StateIdle:
			w.add(conn)
		case http.StateClosed, http.StateHijacked:
			w.remove(conn)
		}
	}
}

func (w *waiting) add(conn net.Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.conns[conn] = w.order.PushBack(conn)
	for w.order.Len() > w.most {
		first := w.order.Front()
		longest := w.order.Remove(first).(net.Conn)
		delete(w.conns, longest)
		longest.Close()
	}
}

func (w *waiting) remove(conn net.Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if e, ok := w.conns[conn]; ok {
		w.order.Remove(e)
		delete(w.conns, conn)
	}
}
