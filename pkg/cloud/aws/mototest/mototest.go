// Package mototest runs moto_server, an implementation of AWS that is not ours, for tests.
package mototest

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/cloud/aws/awstest"
)

// patience limits how long the server may take to start.
const patience = time.Minute

// Start starts moto_server on a free port, and leads the SDK to it. The server ends with
// the test.
func Start(t *testing.T) (url string) {
	t.Helper()
	port := freePort(t)
	var said bytes.Buffer
	server := exec.Command("moto_server", "-H", "127.0.0.1", "-p", port)
	server.Env = append(server.Environ(), "MOTO_ACCOUNT_ID="+awstest.Account, "INITIAL_NO_AUTH_ACTION_COUNT=1000000000")
	server.Stdout, server.Stderr = &said, &said
	server.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := server.Start(); err != nil {
		t.Fatalf("%v: moto_server runs this test; pip install 'moto[server]' brings it", err)
	}
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		_ = server.Wait()
	}()
	t.Cleanup(func() {
		syscall.Kill(-server.Process.Pid, syscall.SIGKILL)
		<-exited
	})
	url = "http://127.0.0.1:" + port
	await(t, url, exited, &said)
	for _, v := range awstest.Environment(url) {
		t.Setenv(v[0], v[1])
	}
	return url
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return fmt.Sprint(l.Addr().(*net.TCPAddr).Port)
}

// await waits until the server answers.
func await(t *testing.T, url string, exited <-chan struct{}, said *bytes.Buffer) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if answer, err := http.Get(url + "/moto-api/data.json"); err == nil {
			answer.Body.Close()
			return
		}
		select {
		case <-tick.C:
		case <-exited:
			t.Fatalf("moto_server ended: %s", strings.TrimSpace(said.String()))
		case <-ctx.Done():
			t.Fatalf("moto_server does not answer after %s", patience)
		}
	}
}
