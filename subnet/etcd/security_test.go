package etcd

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/embedetcd"
)

// authority signs certificates.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t}
	a.cert, a.key = a.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	})
	return a
}

func (a *authority) sign(c *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	c.SerialNumber, c.NotBefore = big.NewInt(time.Now().UnixNano()), time.Now().Add(-time.Hour)
	if c.NotAfter.IsZero() {
		c.NotAfter = time.Now().Add(time.Hour)
	}
	by, with := a.cert, a.key
	if by == nil {
		by, with = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, by, &key.PublicKey, with)
	if err != nil {
		a.t.Fatal(err)
	}
	if c, err = x509.ParseCertificate(der); err != nil {
		a.t.Fatal(err)
	}
	return c, key
}

// files are a certificate with its key and the authority's.
type files struct{ cert, key, ca string }

func newFiles(t *testing.T) files {
	dir := t.TempDir()
	return files{filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"), filepath.Join(dir, "ca.pem")}
}

// write puts a certificate that lasts for a time into files.
func (a *authority) write(f files, lasts time.Duration) {
	a.t.Helper()
	c, key := a.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: "somebody"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotAfter: time.Now().Add(lasts),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	})
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{
		f.cert: {Type: "CERTIFICATE", Bytes: c.Raw}, f.key: {Type: "EC PRIVATE KEY", Bytes: der}, f.ca: {Type: "CERTIFICATE", Bytes: a.cert.Raw},
	} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			a.t.Fatal(err)
		}
	}
}

// secureLab is an etcd that wants certificates.
func secureLab(t *testing.T, f files) (endpoint string) {
	t.Helper()
	server, err := embedetcd.Start(t.Context(), embedetcd.Options{
		Dir: t.TempDir(), Listen: "https://127.0.0.1:0", CertFile: f.cert, KeyFile: f.key, CAFile: f.ca,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	return server.Endpoint()
}

func secureOptions(endpoint string, f files) Options {
	return Options{
		Endpoints: []string{endpoint}, Prefix: prefix, TTL: 24 * time.Hour, RenewMargin: time.Hour,
		CertFile: f.cert, KeyFile: f.key, CAFile: f.ca,
	}
}

// A certificate that cannot be used gives one line that says what to mend, and
// is taken up when that is done.
func TestCertificates(t *testing.T) {
	good := newAuthority(t)
	theirs := newFiles(t)
	good.write(theirs, time.Hour)
	endpoint := secureLab(t, theirs)
	for name, c := range map[string]struct {
		spoil func(files)
		hint  string
	}{
		"good":             {func(files) {}, ""},
		"wrong authority":  {func(f files) { newAuthority(t).write(f, time.Hour) }, "--etcd-cafile"},
		"expired":          {func(f files) { good.write(f, -time.Minute) }, "certificate"},
		"not ours to show": {func(f files) { newAuthority(t).write(files{f.cert, f.key, f.ca + ".other"}, time.Hour) }, "--etcd-certfile"},
	} {
		t.Run(name, func(t *testing.T) {
			ours := newFiles(t)
			good.write(ours, time.Hour)
			c.spoil(ours)
			s, err := Open(secureOptions(endpoint, ours))
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			if _, err = s.client.Get(ctx, "x"); err != nil {
				err = s.attempt.why(err)
			}
			if c.hint == "" != (err == nil) || err != nil && !strings.Contains(words(err), c.hint) {
				t.Fatalf("got %v", err)
			}
			good.write(ours, time.Hour)
			if _, err := s.list(t.Context()); err != nil {
				t.Errorf("after it was mended: %v", err)
			}
		})
	}
	missing := secureOptions(endpoint, newFiles(t))
	if _, err := Open(missing); err == nil || !strings.Contains(err.Error(), "--etcd-certfile") {
		t.Errorf("without files: %v", err)
	}
	missing.KeyFile = ""
	if _, err := Open(missing); err == nil || !strings.Contains(err.Error(), "both") {
		t.Errorf("without a key: %v", err)
	}
}

func words(err error) string {
	_, words := explain(err)
	return words
}
