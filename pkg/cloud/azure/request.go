package azure

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/retry"
)

// The versions of the API. Interfaces of scale sets have one of their own.
const (
	networkVersion    = "2025-05-01"
	setNetworkVersion = "2018-10-01"
	computeVersion    = "2025-04-01"
)

// mostPages is a number of pages that no answer reaches.
const mostPages = 10000

// safe are the kinds of errors after which a request that changes nothing is sent again.
var safe = []cloud.Kind{cloud.Unavailable, cloud.Throttled}

// get reads a resource.
func get[Out any](ctx context.Context, c *Client, action, path, version string, query ...string) (out Out, err error) {
	return getURL[Out](ctx, c, action, c.url(path, version, query...))
}

// url returns the URL of a resource, with further words of the query in pairs.
func (c *Client) url(path, version string, query ...string) string {
	q := url.Values{"api-version": {version}}
	for i := 0; i+1 < len(query); i += 2 {
		q.Set(query[i], query[i+1])
	}
	return strings.TrimRight(c.arm.Endpoint(), "/") + path + "?" + strings.ReplaceAll(q.Encode(), "+", "%20")
}

func getURL[Out any](ctx context.Context, c *Client, action, at string) (Out, error) {
	return again(ctx, c, action, safe, func(ctx context.Context) (out Out, err error) {
		r, err := c.send(ctx, action, http.MethodGet, at, "", nil)
		if err != nil {
			return out, err
		}
		body, err := payload(r)
		if err != nil {
			return out, err
		}
		if r.StatusCode != http.StatusOK {
			return out, runtime.NewResponseError(r)
		}
		if json.Unmarshal(body, &out) != nil {
			return out, strange(action, "body", string(body))
		}
		return out, nil
	})
}

// send sends a request, and slows down when Azure says that few are left.
func (c *Client) send(ctx context.Context, action, method, at, etag string, body []byte) (*http.Response, error) {
	request, err := runtime.NewRequest(ctx, method, at)
	if err != nil {
		return nil, err
	}
	request.Raw().Header.Set("Accept", "application/json")
	if etag != "" {
		request.Raw().Header.Set("If-Match", etag)
	}
	if body != nil {
		if err := request.SetBody(streaming.NopCloser(bytes.NewReader(body)), "application/json"); err != nil {
			return nil, err
		}
	}
	began := time.Now()
	r, err := c.arm.Pipeline().Do(request)
	if err == nil && isScarce(r.Header) {
		c.limiter.Slow(bucketOf(action), began, 0)
	}
	return r, err
}

// payload returns the body of an answer.
func payload(r *http.Response) ([]byte, error) {
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return body, nil
}

// page is a part of a list.
type page[Item any] struct {
	Value []Item `json:"value"`
	Next  string `json:"nextLink"`
}

// list reads all pages of a list, or fails. A link that comes twice would never end, and
// one to another host is not followed: the token would go there.
func list[Item any](ctx context.Context, c *Client, action, path, version string, query ...string) (all []Item, err error) {
	at := c.url(path, version, query...)
	seen := make(map[string]bool)
	for range mostPages {
		p, err := getURL[page[Item]](ctx, c, action, at)
		if err != nil {
			return nil, err
		}
		if p.Value == nil {
			return nil, strange(action, "list", "null")
		}
		all = append(all, p.Value...)
		switch {
		case p.Next == "":
			return all, nil
		case !c.isOurs(p.Next):
			return nil, strange(action, "link", p.Next)
		case seen[p.Next]:
			return nil, &cloud.Error{Kind: cloud.Unavailable, Action: action, Text: "the pages do not end; reading them again later"}
		}
		seen[p.Next], at = true, p.Next
	}
	return nil, &cloud.Error{Kind: cloud.Unavailable, Action: action, Text: "the pages do not end; reading them again later"}
}

// isOurs reports whether a URL is one of Azure Resource Manager.
func (c *Client) isOurs(at string) bool {
	u, err := url.Parse(at)
	base, failed := url.Parse(c.arm.Endpoint())
	return err == nil && failed == nil && isSameServer(u, base)
}

// put writes a resource that has an ETag, and waits for the end of the operation. With an
// error of the kind Pending, the operation goes on.
func (c *Client) put(ctx context.Context, action, path, version, etag string, body []byte) error {
	// An answer that is lost leaves an operation that nothing follows: the caller reads
	// the resource again.
	r, err := again(ctx, c, action, []cloud.Kind{cloud.Throttled}, func(ctx context.Context) (*http.Response, error) {
		r, err := c.send(ctx, action, http.MethodPut, c.url(path, version), etag, body)
		if err != nil {
			return nil, err
		}
		if _, err := payload(r); err != nil {
			return nil, err
		}
		if r.StatusCode != http.StatusOK && r.StatusCode != http.StatusCreated && r.StatusCode != http.StatusAccepted {
			return nil, runtime.NewResponseError(r)
		}
		return r, nil
	})
	if err != nil {
		return err
	}
	for _, name := range []string{"Azure-AsyncOperation", "Operation-Location", "Location"} {
		if at := r.Header.Get(name); at != "" && !c.isOurs(at) {
			return strange(action, "header "+name, at)
		}
	}
	poller, err := runtime.NewPoller[json.RawMessage](r, c.arm.Pipeline(), nil)
	if err != nil {
		return explain(action, err)
	}
	ctx, cancel := context.WithTimeout(ctx, operationLimit)
	defer cancel()
	pause := retryAfter(r.Header)
	for !poller.Done() {
		if retry.Sleep(ctx, max(c.poll, pause)) != nil {
			return &cloud.Error{Kind: cloud.Pending, Action: action, Text: "Azure has begun the change, and not ended it in time; reading again later"}
		}
		seen, err := again(ctx, c, readOperation, safe, poller.Poll)
		if err != nil {
			return lost(action, err)
		}
		pause = retryAfter(seen.Header)
	}
	// The result is read from the resource. An operation that failed says so here.
	_, err = once(ctx, c, strings.TrimSuffix(action, "/write")+"/read", func(ctx context.Context) (json.RawMessage, error) { return poller.Result(ctx) })
	if e, ok := errors.AsType[*cloud.Error](err); ok {
		e.Action = action
	}
	return err
}

// lost returns the error of an operation whose end could not be seen.
func lost(action string, err error) error {
	e := &cloud.Error{Kind: cloud.Unavailable, Action: action, Text: err.Error()}
	if was, ok := errors.AsType[*cloud.Error](err); ok {
		e.Text, e.After = "Azure has begun the change, and its end could not be seen: "+was.Text, was.After
	}
	return e
}
