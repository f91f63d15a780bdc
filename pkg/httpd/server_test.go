package httpd

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 30 * time.Second

// wellMux serves the health of a program whose main loop answers.
func wellMux() *http.ServeMux {
	mux := http.NewServeMux()
	mux.Handle("GET /healthz", Health("the program", func(context.Context) bool { return true }))
	return mux
}

func ask(h http.Handler, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w
}

// TestHealthTellsWhetherTheLoopAnswers checks /healthz while the main loop answers, and
// while it does not.
func TestHealthTellsWhetherTheLoopAnswers(t *testing.T) {
	for alive, want := range map[bool]string{true: "ok\n", false: "the program's main loop did not answer within 2s\n"} {
		w := ask(Health("the program", func(context.Context) bool { return alive }), "/healthz")
		if w.Body.String() != want || (w.Code == http.StatusOK) != alive {
			t.Errorf("%t: %d %s", alive, w.Code, w.Body)
		}
	}
}

// free returns options for a loopback port that was free just now, and its listener.
func free(t *testing.T) (Options, net.Listener) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := l.Addr().(*net.TCPAddr).AddrPort()
	return Options{Address: at.Addr(), Port: at.Port(), AddressSetting: "--healthz-ip", PortSetting: "--healthz-port"}, l
}

func fetch(client *http.Client, o Options, path string) (int, string, error) {
	r, err := client.Get(fmt.Sprintf("http://%s%s", netip.AddrPortFrom(o.Address, o.Port), path))
	if err != nil {
		return 0, "", err
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	return r.StatusCode, string(text), err
}

// TestServeWaitsForItsPort: Serve waits for a port that is in use, and ends with its context.
func TestServeWaitsForItsPort(t *testing.T) {
	o, taken := free(t)
	if _, err := listen(t.Context(), o); err == nil || !strings.Contains(err.Error(), "in use") || !strings.Contains(err.Error(), "--healthz-port") {
		t.Errorf("a port that is taken: %v", err)
	}
	foreign := o
	foreign.Address = netip.MustParseAddr("192.0.2.1")
	if _, err := listen(t.Context(), foreign); err == nil || !strings.Contains(err.Error(), "not an address of this host") || !strings.Contains(err.Error(), "--healthz-ip") {
		t.Errorf("another's address: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, o, wellMux()) }()
	taken.Close()
	client := &http.Client{Transport: &http.Transport{}, Timeout: patience}
	defer client.CloseIdleConnections()
	kerneltest.Eventually(t, patience, func() error {
		code, _, err := fetch(client, o, "/healthz")
		if err == nil && code != http.StatusOK {
			err = fmt.Errorf("it answers %d", code)
		}
		return err
	})
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, _, err := fetch(client, o, "/healthz"); err == nil {
		t.Error("it answers after its end")
	}
}

// TestServeEndsWhileItWaitsForItsPort: Serve also ends with its context while its port is in
// use.
func TestServeEndsWhileItWaitsForItsPort(t *testing.T) {
	o, taken := free(t)
	defer taken.Close()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, o, wellMux()) }()
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestHalfOpenConnectionsBlockNoRequest: any number of connections without a complete
// request does not prevent other requests. Their number is limited.
func TestHalfOpenConnectionsBlockNoRequest(t *testing.T) {
	o, l := free(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, l, Handler(o, wellMux())) }()
	const silent, begun, used = "", "GET /healthz HTTP/1.1\r\nHost: loc", "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
	var open []net.Conn
	for i := range 400 {
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, []string{silent, begun, used}[i%3]); err != nil {
			t.Fatal(err)
		}
		open = append(open, conn)
		if i%40 > 0 {
			continue
		}
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: headerLimit / 2}
		if code, _, err := fetch(client, o, "/healthz"); err != nil || code != http.StatusOK {
			t.Fatalf("beside %d connections: %d, %v", len(open), code, err)
		}
	}
	// Which connections close first depends on the requests that are being answered.
	closed := make(chan struct{}, len(open))
	for _, conn := range open {
		go func() {
			_, _ = io.Copy(io.Discard, conn)
			closed <- struct{}{}
		}()
	}
	tooLong := time.After(patience)
	for left := len(open); left > mostConnections; left-- {
		select {
		case <-closed:
		case <-tooLong:
			t.Fatalf("%d connections are still open", left)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestLargeHeadersAreRejected: the server rejects a request with large headers.
func TestLargeHeadersAreRejected(t *testing.T) {
	o, l := free(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, l, Handler(o, wellMux())) }()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: "+strings.Repeat("x", 2*mostHeader)+"\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	r, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || r.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("a large header: %v, %v", r, err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestExcessRequestsAreRejected: requests beyond the limit are rejected, and /healthz still answers.
func TestExcessRequestsAreRejected(t *testing.T) {
	begun, end := make(chan struct{}), make(chan struct{})
	h := AtOnce(1, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		begun <- struct{}{}
		<-end
	}))
	done := make(chan int)
	go func() { done <- ask(h, "/").Code }()
	<-begun
	if w := ask(h, "/"); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
		t.Errorf("%d", w.Code)
	}
	close(end)
	if code := <-done; code != http.StatusOK {
		t.Error(code)
	}
	go func() { done <- ask(h, "/").Code }()
	<-begun
	<-done
}

var hosts = map[string]bool{
	"": true, "127.0.0.1": true, "127.0.0.1:10256": true, "[::1]:10256": true, "[::1]": true, "::1": false, "localhost": true, "LocalHost.:80": true,
	"192.0.2.1:80": true, "evil.example": false, "evil.example:10256": false, "127.0.0.1.evil.example": false, "localhost.evil.example:80": false,
	"[::1": false, "[::1]x": false, "[localhost]": false, ":80": false, "127.0.0.1:80:80": false, "a]": false, "[fe80::1%eth0]:80": false,
}

func TestLocalAcceptsAddressesAndLocalhost(t *testing.T) {
	for host, want := range hosts {
		if got := local(host); got != want {
			t.Errorf("%q: %t", host, got)
		}
	}
	beyond := Options{Address: netip.IPv4Unspecified()}
	loopback := Options{Address: netip.MustParseAddr("127.0.0.1")}
	for _, c := range []struct {
		o    Options
		host string
		want int
	}{
		{loopback, "evil.example", http.StatusMisdirectedRequest}, {loopback, "localhost:1", http.StatusOK}, {beyond, "node.example", http.StatusOK},
		{Options{Address: netip.MustParseAddr("::1")}, "evil.example", http.StatusMisdirectedRequest},
	} {
		h := Handler(c.o, wellMux())
		r := httptest.NewRequest(http.MethodGet, "/healthz", nil)
		r.Host = c.host
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != c.want {
			t.Errorf("%s asked for %s: %d", c.o.Address, c.host, w.Code)
		}
	}
}

// FuzzLocal checks that only addresses and localhost are local names.
func FuzzLocal(f *testing.F) {
	for host := range hosts {
		f.Add(host)
	}
	f.Fuzz(func(t *testing.T, host string) {
		name := strings.ToLower(host)
		if i := strings.LastIndexByte(name, ':'); i >= 0 {
			name = name[:i]
		}
		if local(host) && strings.TrimSuffix(name, ".") != "localhost" && strings.Trim(name, "[]0123456789abcdef.:") != "" {
			t.Errorf("%q is taken for local", host)
		}
	})
}
