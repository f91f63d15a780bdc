package aws

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"

	"github.com/tulle-net/tulle/pkg/cloud"
)

const (
	// mostARNs is the maximum number of objects in one read of tags.
	mostARNs = 20
	// mostELBReads is the maximum number of concurrent reads of Elastic Load Balancing.
	mostELBReads = 4
)

// mostForeign is the maximum number of foreign objects whose tags one pass reads again. It
// reads them because a person may have handed an object over by tagging it.
const mostForeign = 400

// tagBook caches the tags of load balancers and target groups, so that a pass over an account
// with thousands of foreign objects ends in time. If a pass fails, the next one keeps the tags
// that it has read.
type tagBook struct {
	foreign int // mostForeign
	mu      sync.Mutex
	pass    int // the number of the current pass, or of the next one
	known   map[string]knownTags
}

// knownTags are the tags of an object in a pass. marked is set if they mark it as the
// cluster's; only then tags holds them.
type knownTags struct {
	tags   map[string]string
	marked bool
	pass   int
}

// unread returns those of ids whose tags this pass still has to read. It omits objects that
// this pass has read before it failed, and all but mostForeign of the foreign ones.
func (b *tagBook) unread(ids []string) (all []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var foreign []string
	for _, id := range ids {
		switch last, known := b.known[id]; {
		case !known || last.marked && last.pass != b.pass:
			all = append(all, id)
		case last.pass != b.pass:
			foreign = append(foreign, id)
		}
	}
	slices.SortFunc(foreign, func(x, y string) int {
		return cmp.Or(cmp.Compare(b.known[x].pass, b.known[y].pass), cmp.Compare(x, y))
	})
	return append(all, foreign[:min(len(foreign), b.foreign)]...)
}

// record records the tags of ids that were just read. It forgets the ids that all lacks.
func (b *tagBook) record(ids []string, all map[string]map[string]string, marks func(map[string]string) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.known == nil {
		b.known = make(map[string]knownTags)
	}
	for _, id := range ids {
		tags, exists := all[id]
		switch {
		case !exists:
			delete(b.known, id)
		case marks(tags):
			b.known[id] = knownTags{tags, true, b.pass}
		default:
			b.known[id] = knownTags{pass: b.pass}
		}
	}
}

// finish ends a complete pass over ids, and returns the tags of the cluster's objects.
func (b *tagBook) finish(ids []string) map[string]map[string]string {
	b.mu.Lock()
	defer b.mu.Unlock()
	all, known := make(map[string]map[string]string), make(map[string]knownTags, len(ids))
	for _, id := range ids {
		if last, ok := b.known[id]; ok {
			if known[id] = last; last.marked {
				all[id] = last.tags
			}
		}
	}
	b.known = known
	b.pass++
	return all
}

// tagsOf returns the tags of the objects among ids that have the cluster's tag, keyed by ID.
func (c *Client) tagsOf(ctx context.Context, ids []string) (map[string]map[string]string, error) {
	err := inParallel(slices.Collect(slices.Chunk(c.marked.unread(ids), mostARNs)), func(part []string) error {
		some, err := c.tagsOfPart(ctx, part)
		if err == nil {
			c.marked.record(part, some, c.config.marks)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return c.marked.finish(ids), nil
}

// tagsOfPart returns the tags of at most mostARNs objects, keyed by ID. If one of them does not
// exist, AWS returns an error for all, and does not say reliably which one it is. So
// tagsOfPart halves the list until the missing object is alone.
func (c *Client) tagsOfPart(ctx context.Context, ids []string) (map[string]map[string]string, error) {
	out, err := query(ctx, c, describeTags, func(ctx context.Context) (*elb.DescribeTagsOutput, error) {
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

// inParallel calls do for all items, mostELBReads at a time, and returns the first error. After
// a denied item it begins no other, because that would be denied, too.
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
