package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/tulle-net/tulle/pkg/kube"
	"github.com/tulle-net/tulle/pkg/kube/capi"
)

const (
	// probeLimit is how long the API server of a cluster may take to answer.
	probeLimit = 5 * time.Second
	// caSuffix and kubeconfigSuffix are what the names of the two Secrets end with, after the
	// Cluster's.
	caSuffix         = "-ca"
	kubeconfigSuffix = "-kubeconfig"
	// valueKey is the key of the kubeconfig in its Secret.
	valueKey = "value"
)

// secretState is what a reading of a Cluster's Secrets found. It has nothing secret.
type secretState struct {
	read bool
	// make is why the Secret with the kubeconfig is to be made, or made again, or "". have is
	// the version of the one that there is.
	make string
	have kube.Version
	// problem is why it cannot be made, with the fix, or "".
	problem string
	// answers is set if the API server answered, and silent is why it did not, or "".
	answers bool
	silent  string
}

// look reads the Secrets of a Cluster, and asks its API server unless it is known to be
// initialized.
func (c *Controller) look(ctx context.Context, m capi.Meta, e capi.Endpoint, up bool) (s secretState, err error) {
	s.read = true
	ca, problem, err := c.readCA(ctx, m)
	if err != nil || problem != "" {
		s.problem = problem
		return s, err
	}
	var have secret
	err = kube.Get(ctx, c.options.Client, secretPath(m.Namespace, m.Name+kubeconfigSuffix), secretFormat, &have)
	switch {
	case kube.Code(err) == http.StatusNotFound:
		s.make = "there is none"
		return s, nil
	case err != nil:
		return s, fmt.Errorf("read the Secret %s%s: %w", m.Name, kubeconfigSuffix, err)
	}
	s.have = have.Metadata.Version
	a, err := readKubeconfig(have.Data[valueKey])
	ours := owns(have.Metadata, m)
	switch {
	case err != nil && !ours:
		s.problem = fmt.Sprintf("the Secret %s%s is another program's, and unusable: %s; delete it", m.Name, kubeconfigSuffix, err)
		return s, nil
	case err != nil:
		s.make = "it cannot be read"
		return s, nil
	case ours:
		s.make = a.stale(e, ca, time.Now())
	}
	if s.make == "" && !up {
		if err := c.options.probe(ctx, a); err != nil {
			s.silent = err.Error()
		} else {
			s.answers = true
		}
	}
	return s, nil
}

// owns reports whether a Secret was made for a Cluster by this controller, or by Cluster API's
// core. One without the Cluster as its owner is a person's.
func owns(s, m capi.Meta) bool {
	owner, has := capi.ClusterOf(s.Owners)
	return has && owner.UID == m.UID
}

// readCA reads the CA of a Cluster, or says why it cannot be used.
func (c *Controller) readCA(ctx context.Context, m capi.Meta) (a authority, problem string, err error) {
	name := m.Name + caSuffix
	var s secret
	switch err = kube.Get(ctx, c.options.Client, secretPath(m.Namespace, name), secretFormat, &s); {
	case kube.Code(err) == http.StatusNotFound:
		return a, "the Secret " + name + " with the CA does not exist; what makes the control plane makes it, or create it with tls.crt and tls.key", nil
	case err != nil:
		return a, "", fmt.Errorf("read the Secret %s: %w", name, err)
	}
	a, err = readAuthority(s.Data, time.Now())
	if err != nil {
		return a, "the Secret " + name + ": " + err.Error(), nil
	}
	return a, "", nil
}

// probe asks the API server of a kubeconfig whether it is ready, as its user.
func probe(ctx context.Context, a access) error {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(a.bundle) {
		return errors.New("the kubeconfig has no CA")
	}
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, a.server+"/readyz", nil)
	if err != nil {
		return errors.New("the kubeconfig has no valid URL of an API server")
	}
	client := &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true,
			TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool, Certificates: []tls.Certificate{a.pair}},
		},
	}
	answer, err := client.Do(r)
	if err != nil {
		return errors.New("the API server does not answer: " + reason(err))
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("the API server is not ready: %d %s", answer.StatusCode, http.StatusText(answer.StatusCode))
	}
	return nil
}

// reason returns an error in a text that stays the same while its cause does, because it is
// part of a condition.
func reason(err error) string {
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}
	var text string
	if e, ok := errors.AsType[*net.DNSError](err); ok { // its text has the port of the request
		if text = "the name " + e.Name + " cannot be resolved"; e.IsNotFound {
			text = "the name " + e.Name + " does not exist"
		}
	} else if e, ok := errors.AsType[x509.CertificateInvalidError](err); ok && e.Reason == x509.Expired { // its text has the time
		text = "its certificate has expired, or is not valid yet"
	} else if e, ok := errors.AsType[*net.OpError](err); ok && e.Err != nil {
		text = e.Op + ": " + e.Err.Error()
	} else if errors.Is(err, context.DeadlineExceeded) {
		text = "no answer in " + probeLimit.String()
	} else {
		text = err.Error()
	}
	return strings.ToValidUTF8(text[:min(len(text), 300)], "")
}

// makeSecret makes the Secret with the kubeconfig, or replaces it.
func (c *Controller) makeSecret(ctx context.Context, m capi.Meta, version string, e capi.Endpoint, have kube.Version) error {
	ca, problem, err := c.readCA(ctx, m)
	if err != nil {
		return err
	}
	if problem != "" {
		return errors.New(problem)
	}
	text, err := newKubeconfig(m.Name, e, ca, time.Now())
	if err != nil {
		return err
	}
	yes := true
	s := &secret{
		APIVersion: "v1", Kind: "Secret", Type: secretType, Data: map[string][]byte{valueKey: text},
		Metadata: capi.Meta{
			Meta: kube.Meta{Name: m.Name + kubeconfigSuffix}, Namespace: m.Namespace, Labels: map[string]string{capi.NameLabel: m.Name},
			Owners: []capi.Owner{{APIVersion: capi.Group + "/" + version, Kind: "Cluster", Name: m.Name, UID: m.UID, Controller: &yes}},
		},
	}
	if have.UID == "" {
		return kube.Create(ctx, c.options.Client, secretPath(m.Namespace), secretFormat, s)
	}
	s.Metadata.Version = have
	return kube.Update(ctx, c.options.Client, secretPath(m.Namespace, s.Metadata.Name), secretFormat, s)
}
