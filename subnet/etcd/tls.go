package etcd

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
)

// tlsConfig returns how to connect to etcd; nil means without TLS. Files are read at
// every handshake, so that a new certificate needs no restart.
func tlsConfig(o Options) (*tls.Config, error) {
	if o.CertFile == "" && o.KeyFile == "" && o.CAFile == "" {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if o.CertFile != "" {
		load := func() (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(o.CertFile, o.KeyFile)
			if err != nil {
				return nil, fmt.Errorf("%s %s and %s %s: %w", o.Names.CertFile, o.CertFile, o.Names.KeyFile, o.KeyFile, err)
			}
			return &pair, nil
		}
		if _, err := load(); err != nil {
			return nil, err
		}
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return load() }
	}
	if o.CAFile != "" {
		if _, err := authorities(o.CAFile, o.Names); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func authorities(file string, names Names) (*x509.CertPool, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", names.CAFile, err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s: %s has no certificate", names.CAFile, file)
	}
	return pool, nil
}

// verifying returns c for a connection to host, whose certificate the authorities in
// file verify. The library's own check uses authorities that were read once, and a
// ConnectionState has no ServerName where the host is an IP address.
func verifying(c *tls.Config, host, file string, names Names) *tls.Config {
	c = c.Clone()
	c.InsecureSkipVerify = true
	c.VerifyConnection = func(state tls.ConnectionState) error { return verify(state, host, file, names) }
	return c
}

func verify(state tls.ConnectionState, host, file string, names Names) error {
	pool, err := authorities(file, names)
	if err != nil {
		return err
	}
	options := x509.VerifyOptions{Roots: pool, DNSName: host, Intermediates: x509.NewCertPool()}
	for _, c := range state.PeerCertificates[1:] {
		options.Intermediates.AddCert(c)
	}
	_, err = state.PeerCertificates[0].Verify(options)
	return err
}
