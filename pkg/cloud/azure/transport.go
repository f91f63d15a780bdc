package azure

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
)

// largestAnswer is a size that no answer has.
const largestAnswer = 64 << 20

// guard sends requests to one server alone: the token would go along to another one. It
// limits the size of answers, which the SDK reads whole.
type guard struct {
	to      policy.Transporter
	base    *url.URL
	largest int
}

// newGuard returns a guard of the server at base. Without a transport, it has one that
// follows no redirect.
func newGuard(to policy.Transporter, base string, largest int) (guard, error) {
	u, err := url.Parse(base)
	if err != nil {
		return guard{}, err
	}
	if to == nil {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
		// Like the SDK's own: a dead connection is noticed before the next request.
		t.HTTP2 = &http.HTTP2Config{SendPingTimeout: 10 * time.Second, PingTimeout: 5 * time.Second}
		to = &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	return guard{to, u, largest}, nil
}

// Do implements policy.Transporter.
func (g guard) Do(r *http.Request) (*http.Response, error) {
	if !isSameServer(r.URL, g.base) {
		return nil, fmt.Errorf("refused to send the token to %.100q, which is not %s", r.URL.Host, g.base.Host)
	}
	answer, err := g.to.Do(r)
	if err == nil {
		answer.Body = &limited{answer.Body, g.largest}
	}
	return answer, err
}

// isSameServer reports whether a URL is of the server at base. Lists of scale sets name
// the port in their links, though it is the usual one.
func isSameServer(u, base *url.URL) bool {
	port := func(u *url.URL) string {
		if u.Port() == "" {
			return map[string]string{"https": "443", "http": "80"}[strings.ToLower(u.Scheme)]
		}
		return u.Port()
	}
	return u.User == nil && strings.EqualFold(u.Scheme, base.Scheme) && strings.EqualFold(u.Hostname(), base.Hostname()) && port(u) == port(base)
}

// limited is a body that fails when it is too large.
type limited struct {
	io.ReadCloser
	left int
}

func (l *limited) Read(p []byte) (int, error) {
	if l.left <= 0 {
		return 0, errors.New("the answer is too large; check the API's endpoint")
	}
	n, err := l.ReadCloser.Read(p[:min(len(p), l.left)])
	l.left -= n
	return n, err
}
