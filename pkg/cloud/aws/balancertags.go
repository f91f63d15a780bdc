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
	// mostARNs is how many objects a read of tags may name.
	mostARNs = 20
	// mostELBReads is how many reads of Elastic Load Balancing run at once.
	mostELBReads = 4
)

// mostForeign is how many objects of others are asked again for their tags in one reading.
// A person may have tagged them to hand them over.
const mostForeign = 400

// tagBook remembers the tags of load balancers and target groups, so that a reading of an
// account with thousands of others' ends in time. What a reading that failed has found
// out counts for the next one.
type tagBook struct {
	foreign int // mostForeign
	mu      sync.Mutex
	reading int // the number of the present reading, or of the next one
	known   map[string]knownTags
}

// knownTags are what the tags of an object were in a reading. Tags that do not mark it as
// the cluster's are not kept.
type knownTags struct {
	tags    map[string]string
	marked  bool
	reading int
}

// unread returns those of ids whose tags have to be read: all but what this reading has
// read before it failed, and most of what others own.
func (b *tagBook) unread(ids []string) (all []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var foreign []string
	for _, id := range ids {
		switch now, is := b.known[id]; {
		case !is || now.marked && now.reading != b.reading:
			all = append(all, id)
		case now.reading != b.reading:
			foreign = append(foreign, id)
		}
	}
	slices.SortFunc(foreign, func(x, y string) int {
		return cmp.Or(cmp.Compare(b.known[x].reading, b.known[y].reading), cmp.Compare(x, y))
	})
	return append(all, foreign[:min(len(foreign), b.foreign)]...)
}

// note takes the tags of some of ids.
func (b *tagBook) note(ids []string, all map[string]map[string]string, marks func(map[string]string) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.known == nil {
		b.known = make(map[string]knownTags)
	}
	for _, id := range ids {
		tags, is := all[id]
		switch {
		case !is: // it does not exist any more
			delete(b.known, id)
		case marks(tags):
			b.known[id] = knownTags{tags, true, b.reading}
		default:
			b.known[id] = knownTags{reading: b.reading}
		}
	}
}

// end ends a complete reading of ids, and returns the tags of those that are the cluster's.
func (b *tagBook) end(ids []string) map[string]map[string]string {
	b.mu.Lock()
	defer b.mu.Unlock()
	all, known := make(map[string]map[string]string), make(map[string]knownTags, len(ids))
	for _, id := range ids {
		if now, is := b.known[id]; is {
			if known[id] = now; now.marked {
				all[id] = now.tags
			}
		}
	}
	b.known = known
	b.reading++
	return all
}

// tagsOf returns the tags of those of ids that have the cluster's tag, by their IDs.
func (c *Client) tagsOf(ctx context.Context, ids []string) (map[string]map[string]string, error) {
	err := inParallel(slices.Collect(slices.Chunk(c.marked.unread(ids), mostARNs)), func(part []string) error {
		some, err := c.tagsOfPart(ctx, part)
		if err == nil {
			c.marked.note(part, some, c.config.marks)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return c.marked.end(ids), nil
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
