package gcetest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// InProcess returns a Server that its Transport alone reaches. All of it waits on channels
// and timers, so it runs in the bubble of testing/synctest that it is made in.
func InProcess(t testing.TB) *Server {
	s := newServer(t)
	s.Server = &httptest.Server{URL: "http://in.process"}
	return s
}

// Transport returns a way to the server for a client.
func (s *Server) Transport() http.RoundTripper { return transport{s.routes()} }

type transport struct{ handler http.Handler }

// errCut is what a client gets whose connection the server cut.
var errCut = errors.New("connection reset by the server")

// RoundTrip implements http.RoundTripper. The request reaches the server whole, and the
// server goes on with it if the client gives up.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx := r.Context()
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
		r.Body.Close()
	}
	gone, leave := context.WithCancel(context.WithoutCancel(ctx))
	served := r.Clone(gone)
	served.Body = io.NopCloser(bytes.NewReader(body))
	answered := make(chan *http.Response, 1)
	go func() {
		w := httptest.NewRecorder()
		defer func() {
			answer := w.Result()
			if p := recover(); p == http.ErrAbortHandler {
				answer = nil
			} else if p != nil {
				panic(p)
			}
			answered <- answer
			leave()
		}()
		t.handler.ServeHTTP(w, served)
	}()
	select {
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	case a := <-answered:
		if a == nil {
			return nil, errCut
		}
		a.Request = r
		return a, nil
	}
}
