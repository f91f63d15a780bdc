package e2e

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// calls returns how often each of etcd's methods was called so far. For a stream,
// that is how many messages it received.
func (c *crowd) calls() map[string]int {
	c.t.Helper()
	transport := &http.Transport{DialContext: func(ctx context.Context, network, address string) (conn net.Conn, err error) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			runtime.LockOSThread() // the thread ends with the goroutine
			var ns *os.File
			if ns, err = os.Open(c.EtcdHost().NS.Path); err != nil {
				return
			}
			defer ns.Close()
			if err = unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err == nil {
				conn, err = new(net.Dialer).DialContext(ctx, network, address)
			}
		}()
		<-done
		return conn, err
	}}
	defer transport.CloseIdleConnections()
	r, err := (&http.Client{Transport: transport}).Get(c.etcd.Endpoints()[0] + "/metrics")
	if err != nil {
		c.t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	counts := make(map[string]int)
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "} ")
		labels, ok := strings.CutPrefix(name, "grpc_server_msg_received_total{")
		if !ok {
			continue
		}
		_, method, _ := strings.Cut(labels, `grpc_method="`)
		method, _, _ = strings.Cut(method, `"`)
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			c.t.Fatalf("etcd's metrics: %s: %v", line, err)
		}
		counts[method] += int(n)
	}
	if len(counts) == 0 {
		c.t.Fatal("etcd counts no calls")
	}
	return counts
}
