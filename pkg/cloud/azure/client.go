package azure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/retry"
)

const (
	// mostTries limits how often a request is sent.
	mostTries = 4
	// tryLimit is how long one try may take.
	tryLimit = 12 * time.Second
	// pollInterval is how often an operation is polled, unless Azure names a time.
	pollInterval = time.Second
	// operationLimit is how long an operation may take.
	operationLimit = 5 * time.Minute
)

// usualPace paces the tries of one request.
var usualPace = retry.Backoff{First: 200 * time.Millisecond, Last: 5 * time.Second}

// Options are what a Client needs.
type Options struct {
	// Config is what the cloud config file says.
	Config Config
	// Share is the part of the published request rates to use; 0 is one half.
	Share float64
	// Agent is the user agent: at most 24 characters.
	Agent string
	// Credential gets tokens, in place of the identity of Config.
	Credential azcore.TokenCredential
	// Transport sends requests; nil is over the network.
	Transport policy.Transporter

	largest int // an answer that is not smaller is refused; 0 is largestAnswer
}

// Client speaks to Azure Resource Manager about one resource group and one route table. It
// is safe for concurrent use.
type Client struct {
	config  Config
	arm     *arm.Client
	limiter *cloud.Limiter
	batch   *cloud.Batch
	most    quota
	editor  editor
	few     int           // how many machines of a group are read one by one
	pace    retry.Backoff // of the tries of one request
	poll    time.Duration // between two looks at an operation
	counter cloud.Counter
	labels  cloud.Labels
}

// New returns a Client. It makes no request.
func New(o Options) (*Client, error) {
	// The SDK refuses a longer one.
	o.Agent = strings.ReplaceAll(o.Agent[:min(len(o.Agent), 24)], " ", "_")
	token, err := credential(o)
	if err != nil {
		return nil, fmt.Errorf("find an identity: %s", clip(err.Error()))
	}
	options, err := clientOptions(o)
	if err != nil {
		return nil, err
	}
	to, err := arm.NewClient("tulle", "v1.0.0", token, options)
	if err != nil {
		return nil, err
	}
	c := &Client{
		config: o.Config, arm: to, few: few, pace: usualPace, poll: pollInterval, limiter: cloud.NewLimiter(func(bucket string) cloud.Budget { return budgetOf(bucket, cmp.Or(o.Share, defaultShare)) }),
	}
	c.batch = cloud.NewBatch(c.read)
	c.editor.c = c
	return c, nil
}

// Calls returns the number of requests since the start, by action and outcome.
func (c *Client) Calls() map[cloud.Call]int { return c.counter.Calls() }

// once sends a request once, when the limiter allows it.
func once[Out any](ctx context.Context, c *Client, action string, send func(ctx context.Context) (Out, error)) (Out, error) {
	var none Out
	bucket := bucketOf(action)
	if err := c.limiter.Wait(ctx, bucket); err != nil {
		if e, ok := errors.AsType[*cloud.Error](err); ok {
			e.Action = action
		}
		return none, err
	}
	began := time.Now()
	within, cancel := context.WithTimeout(ctx, tryLimit)
	defer cancel()
	out, err := send(within)
	err = explain(action, err)
	c.counter.Count(action, err)
	if e, ok := errors.AsType[*cloud.Error](err); ok && e.Kind == cloud.Throttled {
		c.limiter.Slow(bucket, began, e.After)
	} else if err == nil {
		c.limiter.Succeeded(bucket)
	}
	return out, err
}

// again sends a request until Azure answers, at most mostTries times. It sends it again
// after errors of these kinds.
func again[Out any](ctx context.Context, c *Client, action string, kinds []cloud.Kind, send func(ctx context.Context) (Out, error)) (Out, error) {
	for failures := 1; ; failures++ {
		out, err := once(ctx, c, action, send)
		if err == nil || failures == mostTries || ctx.Err() != nil {
			return out, err
		}
		e, ok := errors.AsType[*cloud.Error](err)
		retries := false
		for _, k := range kinds {
			retries = retries || ok && e.Kind == k
		}
		if !retries {
			return out, err
		}
		pause := max(c.pace.After(failures), e.After)
		if end, ends := ctx.Deadline(); ends && time.Until(end) < pause {
			return out, err
		}
		if retry.Sleep(ctx, pause) != nil {
			return out, err
		}
	}
}
