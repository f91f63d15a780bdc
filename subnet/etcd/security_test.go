package etcd

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/etcdserver"
	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/test/certtest"
)

// write writes a certificate for the loopback address into files.
func write(by *certtest.Authority, f certtest.Files, lasts time.Duration) {
	by.Write(f, netip.MustParseAddr("127.0.0.1"), lasts)
}

// secureLab starts an etcd that requires certificates.
func secureLab(t *testing.T, f certtest.Files) (endpoint string) {
	t.Helper()
	server, err := etcdserver.Start(t.Context(), etcdserver.Options{
		Dir: t.TempDir(), Listen: "https://127.0.0.1:0", CertFile: f.Cert, KeyFile: f.Key, CAFile: f.CA,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	return server.Endpoint()
}

func secureOptions(endpoint string, f certtest.Files) Options {
	return Options{
		Endpoints: []string{endpoint}, Prefix: prefix, TTL: 24 * time.Hour, RenewMargin: time.Hour,
		CertFile: f.Cert, KeyFile: f.Key, CAFile: f.CA,
	}
}

// TestUnusableCertificatesAreReported: each unusable certificate is reported in one
// line that says what to fix, and a fixed one is used.
func TestUnusableCertificatesAreReported(t *testing.T) {
	good := certtest.New(t)
	theirs := certtest.NewFiles(t)
	write(good, theirs, time.Hour)
	endpoint := secureLab(t, theirs)
	for name, c := range map[string]struct {
		spoil func(certtest.Files)
		hint  string
	}{
		"good":            {func(certtest.Files) {}, ""},
		"wrong authority": {func(f certtest.Files) { write(certtest.New(t), f, time.Hour) }, "the CA file"},
		"expired":         {func(f certtest.Files) { write(good, f, -time.Minute) }, "certificate"},
		"not ours to show": {func(f certtest.Files) {
			write(certtest.New(t), certtest.Files{Cert: f.Cert, Key: f.Key, CA: f.CA + ".other"}, time.Hour)
		}, "the certificate file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ours := certtest.NewFiles(t)
			write(good, ours, time.Hour)
			c.spoil(ours)
			s, err := Open(secureOptions(endpoint, ours))
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			kerneltest.Eventually(t, patience, func() error { // on a busy machine a handshake takes seconds
				_, err := s.client.Get(briefly(t), "x")
				switch {
				case err == nil && c.hint == "":
					return nil
				case err == nil:
					t.Fatal("etcd answers")
				case c.hint == "" || !strings.Contains(words(s.why(err)), c.hint):
					return fmt.Errorf("got %w", s.why(err))
				}
				return nil
			})
			write(good, ours, time.Hour)
			if _, err := s.list(t.Context()); err != nil {
				t.Errorf("after it was corrected: %v", err)
			}
		})
	}
	missing := secureOptions(endpoint, certtest.NewFiles(t))
	if _, err := Open(missing); err == nil || !strings.Contains(err.Error(), "the certificate file") {
		t.Errorf("without files: %v", err)
	}
	missing.KeyFile = ""
	if _, err := Open(missing); err == nil || !strings.Contains(err.Error(), "needs the key file") {
		t.Errorf("without a key: %v", err)
	}
}

func words(err error) string {
	_, words := reasonsFor(Names{}.orWords()).explain(err)
	return words
}
