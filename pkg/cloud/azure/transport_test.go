package azure

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"github.com/tulle-net/tulle/pkg/cloud/azure/azuretest"
	"github.com/tulle-net/tulle/pkg/retry"
)

func TestServersAreTheSameByTheirAddress(t *testing.T) {
	for text, same := range map[string]bool{
		"https://management.azure.com/x?y": true, "https://management.azure.com:443/subscriptions/x?$skiptoken=y": true, "HTTPS://Management.Azure.com/": true,
		"http://management.azure.com/": false, "https://management.azure.com:444/": false, "https://management.azure.com.example/": false,
		"https://me@management.azure.com/": false, "https://example/management.azure.com": false, "/x": false, "//management.azure.com/": false,
	} {
		for _, base := range []string{"https://management.azure.com", "https://management.azure.com:443/"} {
			u, err := url.Parse(text)
			to, failed := url.Parse(base)
			if err != nil || failed != nil || isSameServer(u, to) != same {
				t.Errorf("%s of %s: %v", text, base, !same)
			}
		}
	}
}

// Whatever an answer says, the token goes to no other server.
func TestTokensGoToNoOtherServer(t *testing.T) {
	var asked atomic.Int32
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	t.Cleanup(elsewhere.Close)
	there := map[string]string{"Location": elsewhere.URL + "/x"}
	l := newLab(t)
	defer l.Inject(azuretest.Fault{Method: "GET", Part: "/routetables/", Status: 307, Body: "{}", Header: there})()
	if tables, err := l.Tables(l.ctx); err == nil {
		t.Errorf("%v", tables)
	}
	l = newLab(t)
	l.Inject(azuretest.Fault{Method: "PUT", Status: 202, Body: "{}", Header: map[string]string{"Location": l.URL + "/operations/9?api-version=1"}})
	l.Inject(azuretest.Fault{Part: "/operations/", Status: 202, Body: "{}", Header: there})
	if err := l.change(l.add(1)); err == nil || !strings.Contains(err.Error(), "refused to send the token") {
		t.Errorf("%v", err)
	}
	l = newLab(t)
	l.Inject(azuretest.Fault{Method: "PUT", Header: map[string]string{"Operation-Location": elsewhere.URL}})
	if err := l.change(l.add(1)); err == nil || !strings.Contains(err.Error(), "Operation-Location") {
		t.Errorf("%v", err)
	}
	if n := asked.Load(); n > 0 {
		t.Errorf("%d requests to another server", n)
	}
}

// endless answers without an end.
type endless struct{ read *atomic.Int64 }

func (e endless) Do(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: e, Request: r}, nil
}

func (e endless) Read(p []byte) (int, error) {
	e.read.Add(int64(len(p)))
	return len(p), nil
}

func (endless) Close() error { return nil }

type anyToken struct{}

func (anyToken) GetToken(context.Context, policy.TokenRequestOptions) (azcore.AccessToken, error) {
	return azcore.AccessToken{Token: "x", ExpiresOn: time.Now().Add(time.Hour)}, nil
}

func TestAnswersWithoutAnEndAreRefused(t *testing.T) {
	config, _, err := ParseConfig([]byte(`{` + subscription + `,"routeTableName":"rt"}`))
	if err != nil {
		t.Fatal(err)
	}
	const largest = 1 << 20 // a busy machine may not read largestAnswer in the time of a try
	var read atomic.Int64
	c, err := New(Options{Config: config, Credential: anyToken{}, Transport: endless{&read}, largest: largest})
	if err != nil {
		t.Fatal(err)
	}
	c.pace = retry.Backoff{First: time.Millisecond, Last: time.Millisecond}
	if tables, err := c.Tables(t.Context()); err == nil || !strings.Contains(err.Error(), "too large") {
		t.Errorf("%v, %v", tables, err)
	}
	if n := read.Load(); n > mostTries*largest {
		t.Errorf("read %d bytes", n)
	}
	whole, err := io.ReadAll(&limited{io.NopCloser(strings.NewReader("abc")), 4})
	if err != nil || string(whole) != "abc" {
		t.Errorf("%q, %v", whole, err)
	}
}
