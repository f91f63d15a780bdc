package apitest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync"
	"testing"
)

// InProcess starts a server that its Transport alone reaches. All of it waits on
// channels, so it runs in the bubble of testing/synctest that it is started in.
func InProcess(t testing.TB) *Server {
	f := newServer(t)
	f.URL = "http://in.process"
	t.Cleanup(f.stop)
	return f
}

// errCut is what a client gets whose connection the server cut.
var errCut = errors.New("connection reset by the server")

// Transport returns a way to the server for a client's Wrap.
func (f *Server) Transport() http.RoundTripper { return transport{f} }

type transport struct{ server *Server }

// RoundTrip implements http.RoundTripper. The request reaches the server whole, and the
// server goes on with it if the client gives up.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx := r.Context()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if trace := httptrace.ContextClientTrace(ctx); trace != nil && trace.GotConn != nil {
		trace.GotConn(httptrace.GotConnInfo{})
	}
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
	reader, writer := io.Pipe()
	w := &answer{header: make(http.Header), body: writer, begun: make(chan struct{})}
	go func() {
		err := errCut
		defer func() {
			switch p := recover(); p {
			case nil:
				w.WriteHeader(http.StatusOK)
				err = nil
			case http.ErrAbortHandler: // the server cuts the connection
			default:
				panic(p)
			}
			w.fail(err)
			writer.CloseWithError(err)
			leave()
		}()
		t.server.ServeHTTP(w, served)
	}()
	select {
	case <-ctx.Done():
		leave()
		reader.Close()
		return nil, ctx.Err()
	case <-w.begun:
	}
	if w.err != nil {
		return nil, w.err
	}
	stop := context.AfterFunc(ctx, func() { writer.CloseWithError(ctx.Err()); leave() })
	return &http.Response{
		StatusCode: w.code, Header: w.header, Request: r, ProtoMajor: 1, ProtoMinor: 1, ContentLength: -1,
		Body: &received{Reader: reader, close: func() { stop(); reader.Close(); leave() }},
	}, nil
}

// answer is an http.ResponseWriter whose body a client reads as it is written.
type answer struct {
	header http.Header
	body   *io.PipeWriter
	once   sync.Once
	begun  chan struct{} // closed when code or err is set
	code   int
	err    error
}

// Header implements http.ResponseWriter.
func (w *answer) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *answer) WriteHeader(code int) {
	w.once.Do(func() { w.code = code; close(w.begun) })
}

// Write implements http.ResponseWriter.
func (w *answer) Write(text []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(text)
}

// FlushError implements the interface of http.ResponseController.
func (w *answer) FlushError() error { return nil }

// fail ends an answer that has not begun.
func (w *answer) fail(err error) {
	w.once.Do(func() { w.err = err; close(w.begun) })
}

// received is the body of an answer.
type received struct {
	io.Reader
	close func()
}

// Close implements io.Closer.
func (r *received) Close() error {
	r.close()
	return nil
}
