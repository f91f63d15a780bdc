package aws

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/tulle-net/tulle/pkg/cloud"
)

const (
	describeInstances = "DescribeInstances"
	// mostValues is the maximum number of values in a filter.
	mostValues = 200
	// many is the number of instances above which read lists the instances with the
	// cluster's tag first.
	many = 1000
	// largestPage is the maximum number of instances in a page.
	largestPage = 1000
	// mostPages is more pages than any complete answer has.
	mostPages = 1000
	// mostReads is the maximum number of parts of a read that run concurrently.
	mostReads = 8
)

// Instances returns the instances of provider IDs. If an instance is missing from the result,
// its state is unknown, and the error says why. Concurrent calls share one request.
func (c *Client) Instances(ctx context.Context, providerIDs []string) (map[string]cloud.Instance, error) {
	return c.batch.Instances(ctx, providerIDs)
}

// read reads the instances of provider IDs.
func (c *Client) read(ctx context.Context, providerIDs []string) (map[string]cloud.Instance, error) {
	found := make(map[string]cloud.Instance, len(providerIDs))
	wanted := make(map[string][]string) // provider IDs by ID
	for _, text := range providerIDs {
		id, err := parseID(text, c.region)
		if err != nil {
			found[text] = cloud.Instance{ProviderID: text, Problem: err.Error()}
			continue
		}
		wanted[id] = append(wanted[id], text)
	}
	add := func(all map[string]cloud.Instance) {
		for id, i := range all {
			for _, text := range wanted[id] {
				found[text] = i
			}
			delete(wanted, id)
		}
	}
	if len(wanted) > c.many {
		// A list by tag cannot prove that an instance is absent: the instance may have no
		// tag, or the list may have failed before it. Such instances are read by ID below.
		all, err := c.tagged(ctx)
		if add(all); cloud.KindOf(err) == cloud.Denied {
			return found, err // the same request by ID would be denied, too
		}
	}
	ids := make([]string, 0, len(wanted))
	for id := range wanted {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	all, err := c.parts(ctx, ids, c.byID)
	add(all)
	return found, err
}

// tagged returns the instances with the cluster's tag. If it also returns an error, some may
// be missing. It reads the pages one after the other, and stops after a third of the caller's
// time. So slow pages leave time for the reads by ID, which run in parallel.
func (c *Client) tagged(ctx context.Context) (map[string]cloud.Instance, error) {
	if end, ends := ctx.Deadline(); ends {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(end)/3)
		defer cancel()
	}
	all := make(map[string]cloud.Instance)
	err := c.describe(ctx, []types.Filter{c.config.tagFilter()}, func(i cloud.Instance, _ types.Instance) { all[i.ID] = i })
	return all, err
}

// byID returns the instances of at most mostValues IDs. An instance that the answer lacks is
// absent.
func (c *Client) byID(ctx context.Context, ids []string) (map[string]cloud.Instance, error) {
	all := make(map[string]cloud.Instance, len(ids))
	err := c.describe(ctx, []types.Filter{filter("instance-id", ids...)}, func(i cloud.Instance, _ types.Instance) { all[i.ID] = i })
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		if _, ok := all[id]; !ok {
			all[id] = cloud.Instance{ID: id, State: cloud.Absent, Problem: fmt.Sprintf("region %s has no instance %s in this account; delete the Node if its machine is gone", c.region, id)}
		}
	}
	return all, nil
}

// Named returns the instances of Nodes that have no provider ID yet, keyed by the Nodes'
// names. A name begins with the instance's ID, or is its private DNS name. For a DNS name, an
// instance must have the cluster's tag, because several networks may have the same name.
func (c *Client) Named(ctx context.Context, names []string) (map[string]cloud.Instance, error) {
	found := make(map[string]cloud.Instance, len(names))
	var byID, byName []string
	idOf := make(map[string][]string) // names by ID
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		if m := resourceName.FindStringSubmatch(name); m != nil {
			if idOf[m[1]] = append(idOf[m[1]], name); len(idOf[m[1]]) == 1 {
				byID = append(byID, m[1])
			}
		} else if hostName.MatchString(name) {
			byName = append(byName, name)
		} else {
			found[name] = cloud.Instance{Problem: fmt.Sprintf("%.80q is no host name; name the Node as its instance's private DNS name", name)}
		}
	}
	some, err := c.parts(ctx, byID, c.byID)
	for id, i := range some {
		for _, name := range idOf[id] {
			found[name] = i
		}
	}
	more, failed := c.parts(ctx, byName, c.byName)
	for name, i := range more {
		found[name] = i
	}
	// As soon as the Nodes have provider IDs, other controllers read the same instances.
	offer := make(map[string]cloud.Instance, len(found))
	for _, i := range found {
		offer[i.ProviderID] = i
	}
	c.batch.Offer(offer)
	return found, errors.Join(err, failed)
}

// byName returns the instances of at most mostValues private DNS names.
func (c *Client) byName(ctx context.Context, names []string) (map[string]cloud.Instance, error) {
	filters := append(c.config.ours(), filter("private-dns-name", names...), filter("instance-state-name", "pending", "running", "shutting-down", "stopping", "stopped"))
	all := make(map[string]cloud.Instance, len(names))
	err := c.describe(ctx, filters, func(i cloud.Instance, from types.Instance) {
		name := value(from.PrivateDnsName)
		if other, twice := all[name]; twice && other.ID != i.ID {
			i = cloud.Instance{Problem: fmt.Sprintf("%s and %s both have the private DNS name %s; set the Node's providerID (kubelet --provider-id)", firstIDs(other), i.ID, name)}
		}
		all[name] = i
	})
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if _, ok := all[name]; !ok {
			all[name] = cloud.Instance{State: cloud.Absent, Problem: fmt.Sprintf("no instance with the tag %s has the private DNS name %s; tag it, or set the Node's providerID (kubelet --provider-id)", c.config.tag(), name)}
		}
	}
	return all, nil
}

// firstIDs returns the ID of an instance, or the IDs in the problem of an ambiguous one.
func firstIDs(known cloud.Instance) string {
	if known.ID != "" {
		return known.ID
	}
	text, _, _ := strings.Cut(known.Problem, " both have")
	return text
}

// parts reads keys in parts of mostValues. A failed part does not affect the others. But after
// a denied part, parts begins no other, because that would be denied, too.
func (c *Client) parts(ctx context.Context, keys []string, read func(context.Context, []string) (map[string]cloud.Instance, error)) (map[string]cloud.Instance, error) {
	var mu sync.Mutex
	var running sync.WaitGroup
	all := make(map[string]cloud.Instance, len(keys))
	var failed []error
	denied := false
	free := make(chan struct{}, mostReads)
	for part := range slices.Chunk(keys, mostValues) {
		free <- struct{}{}
		mu.Lock()
		stop := denied
		mu.Unlock()
		if stop {
			break
		}
		running.Go(func() {
			defer func() { <-free }()
			some, err := read(ctx, part)
			mu.Lock()
			defer mu.Unlock()
			for k, i := range some {
				all[k] = i
			}
			denied = denied || cloud.KindOf(err) == cloud.Denied
			if err != nil && len(failed) == 0 { // the other parts fail for the same reason
				failed = append(failed, err)
			}
		})
	}
	running.Wait()
	return all, errors.Join(failed...)
}

// describe calls each for every instance that the filters select. If it returns an error, it
// may have missed some.
func (c *Client) describe(ctx context.Context, filters []types.Filter, each func(cloud.Instance, types.Instance)) error {
	in := &ec2.DescribeInstancesInput{Filters: filters, MaxResults: aws.Int32(largestPage), IncludeManagedResources: aws.Bool(true)}
	return pages(describeInstances, func() (*string, error) {
		out, err := query(ctx, c, describeInstances, func(ctx context.Context) (*ec2.DescribeInstancesOutput, error) {
			return c.ec2.DescribeInstances(ctx, in)
		})
		if err != nil {
			return nil, err
		}
		var shown []func() // none of them is called if any instance of the page is invalid
		for _, r := range out.Reservations {
			for _, i := range r.Instances {
				v, err := c.instance(i, value(r.OwnerId))
				if err != nil {
					return nil, err
				}
				shown = append(shown, func() { each(v, i) })
			}
		}
		for _, show := range shown {
			show()
		}
		in.NextToken = out.NextToken
		return out.NextToken, nil
	})
}

// pages calls next until there is no further page. It fails if a token comes twice, because
// the pages would then never end.
func pages(action string, next func() (*string, error)) error {
	seen := make(map[string]bool)
	for range mostPages {
		token, err := next()
		if err != nil || value(token) == "" {
			return err
		}
		if seen[*token] {
			break
		}
		seen[*token] = true
	}
	return &cloud.Error{Kind: cloud.Unavailable, Action: action, Text: "the pages do not end; reading them again later"}
}

// filter returns a filter for any of these values.
func filter(name string, values ...string) types.Filter {
	return types.Filter{Name: &name, Values: values}
}
