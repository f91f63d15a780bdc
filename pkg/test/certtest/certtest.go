// Package certtest makes certificates for tests.
package certtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Authority signs certificates.
type Authority struct {
	t    testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// New returns a new authority.
func New(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{t: t}
	a.cert, a.key = a.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	})
	return a
}

func (a *Authority) sign(c *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	c.SerialNumber, c.NotBefore = big.NewInt(time.Now().UnixNano()), time.Now().Add(-time.Hour)
	if c.NotAfter.IsZero() {
		c.NotAfter = time.Now().Add(24 * time.Hour)
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

// Files are the paths of a certificate, its key and the authority's certificate.
type Files struct{ Cert, Key, CA string }

// NewFiles returns paths of files that do not exist yet.
func NewFiles(t testing.TB) Files {
	dir := t.TempDir()
	return Files{filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"), filepath.Join(dir, "ca.pem")}
}

// Write writes a certificate for a host, which may have several addresses, for servers
// and for clients. lasts is how long it is valid.
func (a *Authority) Write(f Files, host netip.Addr, lasts time.Duration, more ...netip.Addr) {
	a.t.Helper()
	addresses := []net.IP{host.AsSlice()}
	for _, also := range more {
		addresses = append(addresses, also.AsSlice())
	}
	c, key := a.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: "client"}, IPAddresses: addresses, NotAfter: time.Now().Add(lasts),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	})
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{
		f.Cert: {Type: "CERTIFICATE", Bytes: c.Raw}, f.Key: {Type: "EC PRIVATE KEY", Bytes: der}, f.CA: {Type: "CERTIFICATE", Bytes: a.cert.Raw},
	} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			a.t.Fatal(err)
		}
	}
}

// Key returns the authority's private key, in PEM.
func (a *Authority) Key() []byte {
	a.t.Helper()
	der, err := x509.MarshalECPrivateKey(a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
}
