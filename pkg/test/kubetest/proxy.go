package kubetest

import (
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
)

// proxyPort is the first proxy's port, on the API server's address. The next proxy has
// the next port.
const proxyPort = 6444

// Proxy is between clients and the API server. It can behave like a server that is far
// away or overloaded.
type Proxy struct {
	// URL is what clients use instead of the API server's.
	URL string

	on *net.TCPListener

	mu     sync.Mutex
	conns  map[*tracked]struct{}
	answer func(*http.Request) http.HandlerFunc
	delay  time.Duration
	asked  map[string]int
}

// Proxy runs a proxy. It ends with the test.
func (c *Cluster) Proxy() *Proxy {
	c.t.Helper()
	at := netip.AddrPortFrom(c.options.Address, proxyPort+c.proxies)
	c.proxies++
	p := &Proxy{URL: "https://" + at.String(), conns: make(map[*tracked]struct{}), asked: make(map[string]int)}
	listen := func() (err error) {
		p.on, err = net.ListenTCP("tcp", net.TCPAddrFromAddrPort(at))
		return err
	}
	if c.options.Namespace == "" {
		if err := listen(); err != nil {
			c.t.Fatal(err)
		}
	} else {
		(&kerneltest.NS{Name: c.options.Namespace}).Do(c.t, listen)
	}
	config := &rest.Config{Host: c.URL, TLSClientConfig: rest.TLSClientConfig{CAFile: c.files.CA}}
	if c.options.Namespace != "" {
		config.Dial = kerneltest.Dialer(c.options.Namespace)
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		c.t.Fatal(err)
	}
	to, err := url.Parse(c.URL)
	if err != nil {
		c.t.Fatal(err)
	}
	quiet := log.New(io.Discard, "", 0)
	pass := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }, Transport: transport, FlushInterval: -1, ErrorLog: quiet,
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	server := &http.Server{ErrorLog: quiet, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		p.asked[r.Method]++
		answer, delay := p.answer, p.delay
		p.mu.Unlock()
		if delay > 0 {
			timer := time.NewTimer(delay)
			defer timer.Stop()
			select {
			case <-timer.C:
			case <-r.Context().Done():
				return
			}
		}
		if answer != nil {
			if h := answer(r); h != nil {
				h(w, r)
				return
			}
		}
		pass.ServeHTTP(w, r)
	})}
	ended := make(chan error, 1)
	go func() { ended <- server.ServeTLS(p, c.files.Cert, c.files.Key) }()
	c.t.Cleanup(func() {
		server.Close()
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			c.t.Error(err)
		}
	})
	return p
}

// Answer makes the handler that f returns answer a request. The proxy forwards requests
// if f or the handler is nil.
func (p *Proxy) Answer(f func(*http.Request) http.HandlerFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answer = f
}

// Delay sets how long every request waits before the proxy forwards it.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// Asked returns the number of requests of a method so far.
func (p *Proxy) Asked(method string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked[method]
}

// Reset breaks all connections, as a firewall that loses its state does.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.SetLinger(0) // it may already be closed
		_ = c.TCPConn.Close()
	}
}

// tracked is a connection that the proxy keeps in a list until it is closed.
type tracked struct {
	*net.TCPConn
	proxy *Proxy
}

// Accept implements net.Listener.
func (p *Proxy) Accept() (net.Conn, error) {
	conn, err := p.on.AcceptTCP()
	if err != nil {
		return nil, err
	}
	c := &tracked{conn, p}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns[c] = struct{}{}
	return c, nil
}

// Close implements net.Listener.
func (p *Proxy) Close() error { return p.on.Close() }

// Addr implements net.Listener.
func (p *Proxy) Addr() net.Addr { return p.on.Addr() }

// Close implements net.Conn.
func (c *tracked) Close() error {
	c.proxy.mu.Lock()
	delete(c.proxy.conns, c)
	c.proxy.mu.Unlock()
	return c.TCPConn.Close()
}
