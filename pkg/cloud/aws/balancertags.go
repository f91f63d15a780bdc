package aws

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"

	"github.com/tulle-net/tulle/pkg/cloud"
)

const (
	// mostARNs is how many objects a read of tags may name.
	mostARNs = 20
	// mostELBReads is how many reads of Elastic Load Balancing run at once.
	mostELBReads = 4
)

// tagsOf returns the tags of load balancers and target groups, by their IDs. What has
// gone in the meantime is not in the map.
func (c *Client) tagsOf(ctx context.Context, ids []string) (map[string]map[string]string, error) {
	var mu sync.Mutex
	all := make(map[string]map[string]string, len(ids))
	err := inParallel(slices.Collect(slices.Chunk(ids, mostARNs)), func(part []string) error {
		some, err := c.tagsOfPart(ctx, part)
		mu.Lock()
		defer mu.Unlock()
		maps.Copy(all, some)
		return err
	})
	return all, err
}

// tagsOfPart is tagsOf for at most mostARNs. AWS answers nothing if one of them has gone,
// and does not say reliably which, so they are halved until it is alone.
func (c *Client) tagsOfPart(ctx context.Context, ids []string) (map[string]map[string]string, error) {
	out, err := ask(ctx, c, describeTags, func(ctx context.Context) (*elb.DescribeTagsOutput, error) {
		return c.elb.DescribeTags(ctx, &elb.DescribeTagsInput{ResourceArns: ids})
	})
	if err != nil && cloud.KindOf(err) == cloud.Missing {
		if len(ids) == 1 {
			return nil, nil
		}
		half := len(ids) / 2
		all, err := c.tagsOfPart(ctx, ids[:half])
		if err != nil {
			return nil, err
		}
		rest, err := c.tagsOfPart(ctx, ids[half:])
		if err != nil {
			return nil, err
		}
		if all == nil {
			return rest, nil
		}
		maps.Copy(all, rest)
		return all, nil
	}
	if err != nil {
		return nil, err
	}
	all := make(map[string]map[string]string, len(ids))
	for _, d := range out.TagDescriptions {
		id := value(d.ResourceArn)
		if !slices.Contains(ids, id) {
			return nil, strange(describeTags, "resource", id)
		}
		tags := make(map[string]string, len(d.Tags))
		for _, t := range d.Tags {
			tags[value(t.Key)] = value(t.Value)
		}
		all[id] = tags
	}
	for _, id := range ids {
		if all[id] == nil {
			return nil, strange(describeTags, "tags of all but", id)
		}
	}
	return all, nil
}

// inParallel calls do for all items, mostELBReads at once, and returns the first error. No
// item begins after one that was denied: it would be denied, too.
func inParallel[T any](items []T, do func(T) error) error {
	var mu sync.Mutex
	var running sync.WaitGroup
	var failed error
	free := make(chan struct{}, mostELBReads)
	for _, item := range items {
		free <- struct{}{}
		mu.Lock()
		stop := failed != nil && cloud.KindOf(failed) == cloud.Denied
		mu.Unlock()
		if stop {
			break
		}
		running.Go(func() {
			defer func() { <-free }()
			if err := do(item); err != nil {
				mu.Lock()
				defer mu.Unlock()
				if e, ok := errors.AsType[*cloud.Error](failed); !ok || e.Kind != cloud.Denied {
					failed = err
				}
			}
		})
	}
	running.Wait()
	return failed
}
