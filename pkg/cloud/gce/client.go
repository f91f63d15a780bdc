package gce

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/retry"
)

const (
	// Scope is what tokens are requested for.
	Scope = "https://www.googleapis.com/auth/compute"
	// Endpoint is the API's address.
	Endpoint = "https://compute.googleapis.com/compute/v1/"
)

const (
	// mostTries limits how often a request is sent that a server fails to answer.
	mostTries = 4
	// largest limits the size of an answer. A page of 500 instances has about 200 kB.
	largest = 16 << 20
)

// backoff paces the tries of one request.
var backoff = retry.Backoff{First: 200 * time.Millisecond, Last: 5 * time.Second}

// Options are what a Client needs.
type Options struct {
	// Project is the project of the instances. Without it, it is the one of the
	// credentials.
	Project string
	// Config is what the cloud config file says.
	Config Config
	// Cluster is the cluster's name, which the names of its routes begin with. Without it,
	// the Client writes no routes.
	Cluster string
	// Endpoint is the API's address, or another one of the same API.
	Endpoint string
	// Share is the part of the request rates to use; 0 is one half.
	Share float64
	// RouteLimit is how many static routes the network may have, if that is known.
	RouteLimit int
	// Names are what texts call settings.
	Names Names
	// Agent is the user agent.
	Agent string
	// Transport carries the requests; nil is a transport of the Client's own.
	Transport http.RoundTripper
}

// Client speaks to the API. It is safe for concurrent use.
type Client struct {
	options Options
	http    *http.Client
	tokens  tokens
	limiter *cloud.Limiter
	batch   *cloud.Batch // nil if each request is about other instances
	network network
	reads   recent
	running operations
	counter cloud.Counter
}

// New returns a Client with the Application Default Credentials: the file of the
// variable GOOGLE_APPLICATION_CREDENTIALS, those of gcloud, or the service account of
// the instance that the program runs on.
func New(ctx context.Context, o Options) (*Client, error) {
	ctx = context.WithValue(ctx, oauth2.HTTPClient, &http.Client{Timeout: tokenLimit})
	found, err := google.FindDefaultCredentials(ctx, Scope)
	if err != nil {
		return nil, fmt.Errorf("find Google's credentials: %w; set GOOGLE_APPLICATION_CREDENTIALS, or run it on an instance with a service account", hide(err))
	}
	if o.Project = cmp.Or(o.Project, o.Config.Project); o.Project == "" {
		o.Project = found.ProjectID
	}
	return NewWith(o, found.TokenSource)
}

// NewWith returns a Client with tokens from source.
func NewWith(o Options, source oauth2.TokenSource) (*Client, error) {
	o.Project = cmp.Or(o.Project, o.Config.Project)
	if o.Project == "" {
		return nil, errors.New("the credentials name no project; name the project of the instances")
	}
	if err := CheckProject(o.Project); err != nil {
		return nil, err
	}
	if o.Cluster != "" {
		if err := CheckCluster(o.Cluster); err != nil {
			return nil, err
		}
	}
	o.Endpoint = strings.TrimSuffix(cmp.Or(o.Endpoint, o.Config.Endpoint, Endpoint), "/") + "/"
	if o.Transport == nil {
		o.Transport = http.DefaultTransport.(*http.Transport).Clone()
	}
	c := &Client{
		options: o, tokens: newTokens(source), limiter: cloud.NewLimiter(func(bucket string) cloud.Budget { return budgetOf(bucket, cmp.Or(o.Share, defaultShare)) }),
		// A redirect would take the token elsewhere.
		http: &http.Client{
			Transport:     o.Transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	c.network.project, c.network.name = cmp.Or(o.Config.NetworkProject, o.Project), o.Config.Network
	if o.Cluster != "" {
		c.batch = cloud.NewBatch(c.instances)
	}
	return c, nil
}

// Project returns the project of the instances.
func (c *Client) Project() string { return c.options.Project }

// Calls returns the number of requests since the start, by action and outcome.
func (c *Client) Calls() map[cloud.Call]int { return c.counter.Calls() }

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// request is a request about a zone, or about a project. Each may be sent again as it is.
type request struct {
	action, method string
	at             place
	path           string // below the zone, or below the project
	query          url.Values
	body           any
}

// do sends a request until the API answers, at most mostTries times, and decodes the answer
// into to.
func (c *Client) do(ctx context.Context, r request, to any) error {
	bucket := bucketOf(r.action)
	var last error
	for failures := 1; ; failures++ {
		if err := c.limiter.Wait(ctx, bucket); err != nil {
			if e, ok := errors.AsType[*cloud.Error](err); ok {
				e.Action = r.action
			}
			return cmp.Or(last, err) // the last one may say that a change was made
		}
		began := time.Now()
		err := c.try(ctx, r, to)
		c.counter.Count(r.action, err)
		if last = err; err == nil {
			c.limiter.Succeeded(bucket)
			return nil
		}
		kind := cloud.KindOf(err)
		if kind != cloud.Unavailable && kind != cloud.Throttled || failures == mostTries || ctx.Err() != nil {
			return err
		}
		pause := backoff.After(failures)
		if e, ok := errors.AsType[*cloud.Error](err); ok {
			if pause = max(pause, e.After); kind == cloud.Throttled || e.After > 0 {
				c.limiter.Slow(bucket, began, e.After)
			}
		}
		if end, ends := ctx.Deadline(); ends && time.Until(end) < pause {
			return err
		}
		if retry.Sleep(ctx, pause) != nil {
			return err
		}
	}
}

// try sends a request once.
func (c *Client) try(ctx context.Context, r request, to any) error {
	failed := func(err error) error {
		return &cloud.Error{Kind: cloud.Unavailable, Action: r.action, Text: "the Compute Engine API is not reachable: " + hide(err).Error()}
	}
	token, err := c.tokens.get(ctx)
	if err != nil {
		return noToken(r.action, err)
	}
	var body io.Reader
	if r.body != nil {
		text, err := json.Marshal(r.body)
		if err != nil {
			return failed(err)
		}
		body = bytes.NewReader(text)
	}
	address := c.options.Endpoint + strings.TrimSuffix(r.at.path()+r.path, "/") + "?" + r.query.Encode()
	req, err := http.NewRequestWithContext(ctx, r.method, address, body)
	if err != nil {
		return failed(err)
	}
	req.Header.Set("User-Agent", c.options.Agent)
	token.SetAuthHeader(req)
	if r.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	answer, err := c.http.Do(req)
	if err != nil {
		return failed(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, largest))
	switch {
	case err != nil:
		return failed(err)
	case answer.StatusCode != http.StatusOK:
		return refused(r.action, answer, text)
	}
	if err := json.Unmarshal(text, to); err != nil {
		return &cloud.Error{Kind: cloud.Unavailable, Action: r.action, Text: fmt.Sprintf("the answer of the Compute Engine API cannot be read: %.100s", err)}
	}
	return nil
}
