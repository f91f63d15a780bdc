package aws

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/servicequotas"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/retry"
)

const (
	// mostTries limits how often a request is sent.
	mostTries = 4
	// tryLimit is the timeout of one try. The Client retries a slow request while the
	// caller's time allows it.
	tryLimit = 12 * time.Second
)

// backoff paces the tries of one request.
var backoff = retry.Backoff{First: 200 * time.Millisecond, Last: 5 * time.Second}

// Options are what a Client needs.
type Options struct {
	// Config holds the settings of the cloud config file.
	Config Config
	// Cluster is the NAME in the tags kubernetes.io/cluster/NAME. Config.Cluster overrides
	// it.
	Cluster string
	// Share is the part of the published request rates to use; 0 is one half.
	Share float64
	// Networks is set for a Client of whole networks alone. It needs no Cluster.
	Networks bool
	// Agent is the user agent.
	Agent string
	// Beside, if set, is another Client in this process. Two Clients of one account and
	// region share the budgets of Beside.
	Beside *Client
}

// Client speaks to the API of one account in one region. It is safe for concurrent use.
type Client struct {
	config   Config
	region   string
	ec2      *ec2.Client
	elb      *elasticloadbalancingv2.Client
	quotas   *servicequotas.Client
	limiter  *cloud.Limiter
	tables   recent
	most     quota
	rules    ruleQuota
	batch    *cloud.Batch
	zones    zones
	marked   tagBook
	networks networkBook
	places   networkZones
	topology topology
	many     int // from more instances than this, read reads by the cluster's tag first
	counter  cloud.Counter
	labels   cloud.Labels
}

// New returns a Client with the credentials that the SDK finds: in the environment, in the
// shared files, from a web identity, or from the instance or container that runs the program.
func New(ctx context.Context, o Options) (*Client, error) {
	if o.Config.Cluster == "" {
		o.Config.Cluster = o.Cluster
	}
	if err := CheckCluster(o.Config.Cluster); err != nil && !o.Networks {
		return nil, err
	}
	loaded, err := load(ctx, o)
	if err != nil {
		return nil, err
	}
	if o.Share == 0 {
		o.Share = defaultShare
	}
	layered, err := regexp.Compile(cmp.Or(o.Config.Layered, usualLayered))
	if err != nil {
		return nil, fmt.Errorf("SupportedTopologyInstanceTypePattern: %w", err)
	}
	c := &Client{
		topology: topology{layered: layered},
		config:   o.Config, region: loaded.Region, many: many, marked: tagBook{foreign: mostForeign},
		limiter: cloud.NewLimiter(func(action string) cloud.Budget { return budgetOf(action, o.Share) }),
		ec2: ec2.NewFromConfig(loaded, func(to *ec2.Options) {
			to.Retryer, to.BaseEndpoint, to.HTTPClient = aws.NopRetryer{}, endpoint(o.Config, "ec2", to.BaseEndpoint), plain{to.HTTPClient}
		}),
		elb: elasticloadbalancingv2.NewFromConfig(loaded, func(to *elasticloadbalancingv2.Options) {
			to.Retryer, to.BaseEndpoint, to.HTTPClient = aws.NopRetryer{}, endpoint(o.Config, "elasticloadbalancing", to.BaseEndpoint), plain{to.HTTPClient}
		}),
		quotas: servicequotas.NewFromConfig(loaded, func(to *servicequotas.Options) {
			to.Retryer, to.BaseEndpoint, to.HTTPClient = aws.NopRetryer{}, endpoint(o.Config, "servicequotas", to.BaseEndpoint), plain{to.HTTPClient}
		}),
	}
	if c.sharesWith(o.Beside) {
		c.limiter = o.Beside.limiter
	}
	c.batch = cloud.NewBatch(c.read)
	return c, nil
}

// sharesWith reports whether AWS counts the requests of both Clients together. The process
// has one identity, so the account differs only with another role.
func (c *Client) sharesWith(o *Client) bool {
	return o != nil && o.region == c.region && o.config.RoleARN == c.config.RoleARN
}

// Region returns the region of the Client's requests.
func (c *Client) Region() string { return c.region }

// Cluster returns the name of the cluster. Its tags mark what is ours.
func (c *Client) Cluster() string { return c.config.Cluster }

// Calls returns the number of requests since the start, by action and outcome.
func (c *Client) Calls() map[cloud.Call]int { return c.counter.Calls() }

// query sends a read. It retries until AWS answers, at most mostTries times.
func query[Out any](ctx context.Context, c *Client, action string, send func(ctx context.Context) (Out, error)) (Out, error) {
	return do(ctx, c, action, func(k cloud.Kind) bool { return k == cloud.Unavailable || k == cloud.Throttled }, send)
}

// change sends a request that changes an object. It retries only if AWS has certainly not made
// the change.
func change[Out any](ctx context.Context, c *Client, action string, send func(ctx context.Context) (Out, error)) error {
	_, err := create(ctx, c, action, send)
	return err
}

// create sends a request that creates an object, and returns the answer. It retries like
// change.
func create[Out any](ctx context.Context, c *Client, action string, send func(ctx context.Context) (Out, error)) (Out, error) {
	return do(ctx, c, action, func(k cloud.Kind) bool { return k == cloud.Throttled }, send)
}

func do[Out any](ctx context.Context, c *Client, action string, again func(cloud.Kind) bool, send func(ctx context.Context) (Out, error)) (Out, error) {
	var none Out
	bucket := bucketOf(action)
	for failures := 1; ; failures++ {
		if err := c.limiter.Wait(ctx, bucket); err != nil {
			if e, ok := errors.AsType[*cloud.Error](err); ok {
				e.Action = action
			}
			return none, err
		}
		began := time.Now()
		out, err := try(ctx, send)
		err = explain(action, err)
		c.counter.Count(action, err)
		if err == nil {
			c.limiter.Succeeded(bucket)
			return out, nil
		}
		kind, pause := cloud.KindOf(err), backoff.After(failures)
		if e, ok := errors.AsType[*cloud.Error](err); ok && kind == cloud.Throttled {
			c.limiter.Slow(bucket, began, e.After)
			pause = max(pause, e.After)
		}
		if !again(kind) || failures == mostTries || ctx.Err() != nil {
			return none, err
		}
		if end, ends := ctx.Deadline(); ends && time.Until(end) < pause {
			return none, err
		}
		if retry.Sleep(ctx, pause) != nil {
			return none, err
		}
	}
}

// try sends a request once.
func try[Out any](ctx context.Context, send func(ctx context.Context) (Out, error)) (Out, error) {
	ctx, cancel := context.WithTimeout(ctx, tryLimit)
	defer cancel()
	return send(ctx)
}

// CheckCluster returns an error unless name can be the NAME in a cluster's tag.
func CheckCluster(name string) error {
	switch {
	case name == "":
		return errors.New("the cluster has no name; set it to the NAME in the tags kubernetes.io/cluster/NAME")
	case !isClusterName(name):
		return fmt.Errorf("%.80q is not the name of a cluster; use the NAME in the tags kubernetes.io/cluster/NAME: letters, digits and _.:/=+@-, at most 106", name)
	}
	return nil
}

// value returns what p points to, or the zero value.
func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}
