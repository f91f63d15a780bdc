//go:build aws

package awstest_test

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
)

// TestMotoIsAsMarked makes the calls of the conformance table against moto_server. Where
// a row is marked, moto must be wrong in the way that the mark says.
func TestMotoIsAsMarked(t *testing.T) {
	url := moto(t)
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			// moto forgets everything: the scenarios need nothing of one another.
			if answer, err := http.Post(url+"/moto-api/reset", "", nil); err != nil || answer.StatusCode != http.StatusOK {
				t.Fatalf("reset: %v %v", answer, err)
			}
			for name, value := range map[string]string{
				"AWS_ENDPOINT_URL": url, "AWS_ACCESS_KEY_ID": "AKIATULLETEST0000001", "AWS_SECRET_ACCESS_KEY": "not-a-secret",
				"AWS_REGION": "eu-central-1", "AWS_EC2_METADATA_DISABLED": "true", "AWS_CA_BUNDLE": "",
			} {
				t.Setenv(name, value)
			}
			s.run(t, func(r row) string {
				if r.moto != "" {
					return r.moto
				}
				return r.want
			})
		})
	}
}

// moto starts moto_server on a free port, and ends it with the test.
func moto(t *testing.T) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	var said bytes.Buffer
	server := exec.Command("moto_server", "-H", "127.0.0.1", "-p", fmt.Sprint(port))
	server.Env = append(server.Environ(), "MOTO_ACCOUNT_ID=123456789012", "INITIAL_NO_AUTH_ACTION_COUNT=1000000000")
	server.Stdout, server.Stderr = &said, &said
	server.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := server.Start(); err != nil {
		t.Fatalf("%v: moto_server runs this test; pip install 'moto[server]' brings it", err)
	}
	exited := make(chan error, 1)
	go func() { exited <- server.Wait() }()
	t.Cleanup(func() {
		syscall.Kill(-server.Process.Pid, syscall.SIGKILL)
		<-exited
	})
	url = fmt.Sprintf("http://127.0.0.1:%d", port)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for tick := time.NewTicker(50 * time.Millisecond); ; {
		if answer, err := http.Get(url + "/moto-api/data.json"); err == nil {
			answer.Body.Close()
			return url
		}
		select {
		case <-tick.C:
		case err := <-exited:
			exited <- err
			t.Fatalf("moto_server ended: %v\n%s", err, strings.TrimSpace(said.String()))
		case <-ctx.Done():
			t.Fatalf("moto_server does not answer\n%s", strings.TrimSpace(said.String()))
		}
	}
}
