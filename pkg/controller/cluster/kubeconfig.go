package cluster

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"strconv"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/tulle-net/tulle/pkg/kube/capi"
)

const (
	// certificateTime is how long a client certificate is valid, as of Cluster API's core.
	certificateTime = 365 * 24 * time.Hour
	// renewTime is how much of it is left when a new one is made.
	renewTime = certificateTime / 2
	// skewTime is how far back a certificate begins: clocks differ.
	skewTime = 5 * time.Minute
)

// authority is a CA: its certificate in PEM, and its key. It is never printed.
type authority struct {
	bundle []byte
	cert   *x509.Certificate
	key    crypto.Signer
}

// String implements fmt.Stringer: no key gets into a log.
func (authority) String() string { return "a certificate authority" }

// GoString implements fmt.GoStringer.
func (a authority) GoString() string { return a.String() }

// Format implements fmt.Formatter.
func (a authority) Format(s fmt.State, _ rune) { _, _ = s.Write([]byte(a.String())) }

// readAuthority reads a CA from the data of its Secret.
func readAuthority(data map[string][]byte, now time.Time) (a authority, err error) {
	cert, key := data["tls.crt"], data["tls.key"]
	if len(cert) == 0 || len(key) == 0 {
		return a, errors.New("it lacks tls.crt or tls.key; both must be in PEM")
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil { // its text never has the key
		return a, fmt.Errorf("tls.crt and tls.key are no pair: %w", err)
	}
	if a.cert, err = x509.ParseCertificate(pair.Certificate[0]); err != nil {
		return a, fmt.Errorf("tls.crt: %w", err)
	}
	signer, is := pair.PrivateKey.(crypto.Signer)
	switch {
	case !is:
		return a, errors.New("tls.key: this kind of key cannot sign; use RSA or ECDSA")
	case isShort(signer):
		return a, fmt.Errorf("tls.key: an RSA key of less than %d bits is not safe; replace the CA", shortestRSA)
	case !a.cert.IsCA || !a.cert.BasicConstraintsValid:
		return a, fmt.Errorf("tls.crt: %.80q is not the certificate of a CA", a.cert.Subject.CommonName)
	case now.After(a.cert.NotAfter):
		return a, fmt.Errorf("tls.crt: the CA was valid until %s; replace it", a.cert.NotAfter.UTC().Format(time.DateOnly))
	}
	a.bundle, a.key = cert, signer
	return a, nil
}

// shortestRSA is the length of an RSA key in bits that is still safe. Much shorter ones cannot
// sign at all.
const shortestRSA = 2048

func isShort(key crypto.Signer) bool {
	k, is := key.(*rsa.PrivateKey)
	return is && k.N.BitLen() < shortestRSA
}

// config is a kubeconfig with one cluster and one user.
type config struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Clusters   []namedCluster `json:"clusters"`
	Contexts   []namedContext `json:"contexts"`
	Users      []namedUser    `json:"users"`
	Current    string         `json:"current-context"`
}

type (
	namedCluster struct {
		Name    string `json:"name"`
		Cluster struct {
			Server string `json:"server"`
			CA     string `json:"certificate-authority-data"`
		} `json:"cluster"`
	}
	namedContext struct {
		Name    string `json:"name"`
		Context struct {
			Cluster string `json:"cluster"`
			User    string `json:"user"`
		} `json:"context"`
	}
	namedUser struct {
		Name string `json:"name"`
		User struct {
			Cert string `json:"client-certificate-data"`
			Key  string `json:"client-key-data"`
		} `json:"user"`
	}
)

// serverOf returns the URL of an endpoint.
func serverOf(e capi.Endpoint) string {
	return "https://" + net.JoinHostPort(e.Host, strconv.Itoa(e.Port))
}

// newKubeconfig returns a kubeconfig of an administrator, with a new key.
func newKubeconfig(cluster string, e capi.Endpoint, a authority, now time.Time) ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	until := now.Add(certificateTime)
	if until.After(a.cert.NotAfter) {
		until = a.cert.NotAfter
	}
	template := &x509.Certificate{
		SerialNumber: serial.Add(serial, big.NewInt(1)), Subject: pkix.Name{CommonName: "kubernetes-admin", Organization: []string{"system:masters"}},
		NotBefore: now.Add(-skewTime), NotAfter: until,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return nil, fmt.Errorf("sign a client certificate: %w", err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	text := base64.StdEncoding.EncodeToString
	c := config{APIVersion: "v1", Kind: "Config", Current: cluster + "-admin@" + cluster}
	c.Clusters = make([]namedCluster, 1)
	c.Clusters[0].Name, c.Clusters[0].Cluster.Server, c.Clusters[0].Cluster.CA = cluster, serverOf(e), text(a.bundle)
	c.Users = make([]namedUser, 1)
	c.Users[0].Name = cluster + "-admin"
	c.Users[0].User.Cert = text(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}))
	c.Users[0].User.Key = text(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}))
	c.Contexts = make([]namedContext, 1)
	c.Contexts[0].Name, c.Contexts[0].Context.Cluster, c.Contexts[0].Context.User = c.Current, cluster, cluster+"-admin"
	doc, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	return yaml.JSONToYAML(doc)
}

// access is what a kubeconfig gives.
type access struct {
	server string
	bundle []byte
	pair   tls.Certificate
	until  time.Time
}

// readKubeconfig reads a kubeconfig that newKubeconfig made.
func readKubeconfig(text []byte) (a access, err error) {
	var c config
	if err := yaml.Unmarshal(text, &c); err != nil || len(c.Clusters) != 1 || len(c.Users) != 1 {
		return a, errors.New("it is not a kubeconfig with one cluster and one user")
	}
	var cert, key []byte
	for from, to := range map[string]*[]byte{c.Clusters[0].Cluster.CA: &a.bundle, c.Users[0].User.Cert: &cert, c.Users[0].User.Key: &key} {
		if *to, err = base64.StdEncoding.DecodeString(from); err != nil {
			return a, errors.New("the kubeconfig has data that are not base64")
		}
	}
	if a.pair, err = tls.X509KeyPair(cert, key); err != nil {
		return a, fmt.Errorf("the client certificate of the kubeconfig: %w", err)
	}
	leaf, err := x509.ParseCertificate(a.pair.Certificate[0])
	if err != nil {
		return a, fmt.Errorf("the client certificate of the kubeconfig: %w", err)
	}
	a.server, a.until = c.Clusters[0].Cluster.Server, leaf.NotAfter
	if u, err := url.Parse(a.server); err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery+u.Fragment != "" {
		return a, errors.New("the server of the kubeconfig is not the URL of an API server; it begins with https://")
	}
	return a, nil
}

// stale reports why a kubeconfig is to be made again, or "".
func (a access) stale(e capi.Endpoint, ca authority, now time.Time) string {
	switch {
	case a.server != serverOf(e):
		return "the endpoint has changed"
	case string(a.bundle) != string(ca.bundle):
		return "the CA has changed"
	case a.until.Sub(now) < renewTime && a.until.Before(ca.cert.NotAfter):
		return "its certificate ends on " + a.until.UTC().Format(time.DateOnly)
	}
	return ""
}
