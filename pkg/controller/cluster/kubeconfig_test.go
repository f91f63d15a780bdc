package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/kube/capi"
)

var testTime = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// newCA returns the data of a Secret with a CA.
func newCA(t testing.TB, isCA bool, until time.Time) map[string][]byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "kubernetes"}, NotBefore: testTime.Add(-time.Hour), NotAfter: until,
		IsCA: isCA, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return map[string][]byte{
		"tls.crt": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}), "tls.key": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}),
	}
}

func TestKubeconfigIsSignedByTheCA(t *testing.T) {
	data := newCA(t, true, testTime.Add(10*certificateTime))
	ca, err := readAuthority(data, testTime)
	if err != nil {
		t.Fatal(err)
	}
	e := capi.Endpoint{Host: "2001:db8::1", Port: 6443}
	text, err := newKubeconfig("prod", e, ca, testTime)
	if err != nil {
		t.Fatal(err)
	}
	a, err := readKubeconfig(text)
	if err != nil || a.server != "https://[2001:db8::1]:6443" || string(a.bundle) != string(data["tls.crt"]) || !a.until.Equal(testTime.Add(certificateTime)) {
		t.Errorf("%v: %s until %s", err, a.server, a.until)
	}
	leaf, err := x509.ParseCertificate(a.pair.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(ca.cert)
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: pool, CurrentTime: testTime, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
		t.Error(err)
	}
	if leaf.Subject.CommonName != "kubernetes-admin" || leaf.Subject.Organization[0] != "system:masters" || leaf.IsCA {
		t.Errorf("%+v", leaf.Subject)
	}
	again, err := newKubeconfig("prod", e, ca, testTime)
	if err != nil || string(again) == string(text) {
		t.Errorf("two kubeconfigs have one key: %v", err)
	}
	if printed := fmt.Sprintf("%v %+v %#v %s", ca, ca, ca, []any{ca}); strings.Contains(printed, "BEGIN") || strings.Contains(printed, "ecdsa") || strings.Contains(printed, "big") {
		t.Errorf("a CA is printed as %s", printed)
	}
}

func TestKubeconfigIsRenewedInTime(t *testing.T) {
	data := newCA(t, true, testTime.Add(2*certificateTime))
	ca, _ := readAuthority(data, testTime)
	e := capi.Endpoint{Host: "a", Port: 6443}
	text, err := newKubeconfig("prod", e, ca, testTime)
	if err != nil {
		t.Fatal(err)
	}
	a, err := readKubeconfig(text)
	if err != nil {
		t.Fatal(err)
	}
	other, _ := readAuthority(newCA(t, true, testTime.Add(2*certificateTime)), testTime)
	for name, c := range map[string]struct {
		e     capi.Endpoint
		ca    authority
		at    time.Duration
		stale string
	}{
		"new":              {e, ca, 0, ""},
		"before the half":  {e, ca, renewTime - time.Hour, ""},
		"after the half":   {e, ca, renewTime + time.Hour, "its certificate ends on 2027-11-23"},
		"another endpoint": {capi.Endpoint{Host: "b", Port: 6443}, ca, 0, "the endpoint has changed"},
		"another CA":       {e, other, 0, "the CA has changed"},
	} {
		if got := a.stale(c.e, c.ca, testTime.Add(c.at)); got != c.stale {
			t.Errorf("%s: %q", name, got)
		}
	}
	// A certificate that ends with its CA is not made again and again.
	short, _ := readAuthority(newCA(t, true, testTime.Add(time.Hour)), testTime)
	text, err = newKubeconfig("prod", e, short, testTime)
	if err != nil {
		t.Fatal(err)
	}
	if a, err := readKubeconfig(text); err != nil || a.stale(e, short, testTime) != "" {
		t.Errorf("%v, %q", err, a.stale(e, short, testTime))
	}
}

func TestBadCAsAreRefused(t *testing.T) {
	good := newCA(t, true, testTime.Add(certificateTime))
	with := func(key string, value []byte) map[string][]byte {
		m := maps.Clone(good)
		m[key] = value
		return m
	}
	small, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	foreign := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(small)})
	for name, c := range map[string]struct {
		data map[string][]byte
		text string
	}{
		"no CA":       {newCA(t, false, testTime.Add(certificateTime)), "is not the certificate of a CA"},
		"ended":       {newCA(t, true, testTime.Add(-time.Minute)), "replace it"},
		"no key":      {with("tls.key", nil), "lacks tls.crt or tls.key"},
		"another key": {with("tls.key", foreign), "are no pair"},
		"garbage":     {with("tls.crt", []byte("x")), "are no pair"},
		"empty":       {nil, "lacks"},
	} {
		if _, err := readAuthority(c.data, testTime); err == nil || !strings.Contains(err.Error(), c.text) || strings.Contains(err.Error(), "PRIVATE") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestShortKeysAreRefused: Go signs nothing with them.
func TestShortKeysAreRefused(t *testing.T) {
	for bits, short := range map[int]bool{1024: true, 2048: false} {
		key := &rsa.PrivateKey{PublicKey: rsa.PublicKey{N: new(big.Int).Lsh(big.NewInt(1), uint(bits-1))}}
		if isShort(key) != short {
			t.Errorf("%d bits", bits)
		}
	}
}

// TestKubeconfigsServerIsAnAPIServer: the controller sends requests to it.
func TestKubeconfigsServerIsAnAPIServer(t *testing.T) {
	ca, err := readAuthority(newCA(t, true, testTime.Add(certificateTime)), testTime)
	if err != nil {
		t.Fatal(err)
	}
	text, err := newKubeconfig("prod", capi.Endpoint{Host: "a", Port: 6443}, ca, testTime)
	if err != nil {
		t.Fatal(err)
	}
	for server, ok := range map[string]bool{
		"https://a:6443": true, "https://[2001:db8::1]:6443": true, "http://169.254.169.254/latest?x=": false, "https://u:p@a": false, "https://a/?x": false, "": false, "a": false,
	} {
		_, err := readKubeconfig([]byte(strings.Replace(string(text), "https://a:6443", server, 1)))
		if (err == nil) != ok {
			t.Errorf("%q: %v", server, err)
		}
	}
}

// TestReasonsStay: what is part of a condition must not change while its cause stays, or each
// look would write.
func TestReasonsStay(t *testing.T) {
	expired := func(now time.Time) error {
		return &url.Error{Op: "Get", URL: "https://a", Err: x509.CertificateInvalidError{Reason: x509.Expired, Detail: "current time " + now.String()}}
	}
	unresolved := func(port int) error {
		text := fmt.Sprintf("read udp 10.0.0.1:%d->10.0.0.2:53: i/o timeout", port)
		return &url.Error{Op: "Get", URL: "https://a", Err: &net.OpError{Op: "dial", Err: &net.DNSError{Err: text, Name: "prod.example.com", IsTimeout: true}}}
	}
	if a, b := reason(expired(testTime)), reason(expired(testTime.Add(time.Hour))); a != b || !strings.Contains(a, "expired") {
		t.Errorf("%q and %q", a, b)
	}
	if a, b := reason(unresolved(40001)), reason(unresolved(40002)); a != b || !strings.Contains(a, "prod.example.com cannot be resolved") {
		t.Errorf("%q and %q", a, b)
	}
}

func FuzzKubeconfig(f *testing.F) {
	f.Add([]byte("clusters: [{}]\nusers: [{}]"))
	f.Add([]byte("clusters: [{cluster: {certificate-authority-data: x}}]\nusers: [{user: {client-key-data: eA==}}]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if a, err := readKubeconfig(text); err == nil && (len(a.pair.Certificate) == 0 || a.until.IsZero()) {
			t.Errorf("%q: %+v", text, a.server)
		}
	})
}
