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
	// mostValues is how many values a filter may have.
	mostValues = 200
	// many is how many instances are read by the cluster's tag first, in pages of a
	// thousand. Fewer are read by their IDs.
	many = 1000
	// largestPage is how many instances a page may have.
	largestPage = 1000
	// mostPages is a number of pages that no answer reaches.
	mostPages = 1000
	// mostReads is how many parts of a read run at once.
	mostReads = 8
)

// Instances returns the instances of provider IDs. One that is not in the map is
// unknown, for the reason that the error gives. Requests of several callers at a time
// become one.
func (c *Client) Instances(ctx context.Context, providerIDs []string) (map[string]cloud.Instance, error) {
	return c.batch.Instances(ctx, providerIDs)
}

// read reads the instances of provider IDs.
func (c *Client) read(ctx context.Context, providerIDs []string) (map[string]cloud.Instance, error) {
	found := make(map[string]cloud.Instance, len(providerIDs))
	asked := make(map[string][]string) // provider IDs by ID
	for _, text := range providerIDs {
		id, err := parseID(text, c.region)
		if err != nil {
			found[text] = cloud.Instance{ProviderID: text, Problem: err.Error()}
			continue
		}
		asked[id] = append(asked[id], text)
	}
	take := func(all map[string]cloud.Instance) {
		for id, i := range all {
			for _, text := range asked[id] {
				found[text] = i
			}
			delete(asked, id)
		}
	}
	if len(asked) > c.many {
		// An instance without the tag is read below, and one that this does not reach before
		// it fails. So it shows instances, and never that one is absent.
		all, err := c.tagged(ctx)
		if take(all); cloud.KindOf(err) == cloud.Denied {
			return found, err // the same request by ID would be denied, too
		}
	}
	ids := make([]string, 0, len(asked))
	for id := range asked {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	all, err := c.parts(ctx, ids, c.byID)
	take(all)
	return found, err
}

// tagged returns the instances that have the cluster's tag. With an error, there may be
// others. Its pages come one after the other, so it ends after a third of the time: slow
// pages leave the rest for reading by ID, which goes on in parallel.
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

// byID returns the instances of IDs, at most mostValues. One that the answer does not
// have is absent.
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

// Named returns the instances of Nodes' names, for Nodes that have no provider ID yet: a
// name is the instance's private DNS name, or begins with its ID. Of the others only
// those of the cluster's tag count, because names repeat from network to network.
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
	// As soon as the Nodes have their provider IDs, other controllers ask for these.
	offer := make(map[string]cloud.Instance, len(found))
	for _, i := range found {
		offer[i.ProviderID] = i
	}
	c.batch.Offer(offer)
	return found, errors.Join(err, failed)
}

// byName returns the instances of private DNS names, at most mostValues.
func (c *Client) byName(ctx context.Context, names []string) (map[string]cloud.Instance, error) {
	filters := append(c.config.ours(), filter("private-dns-name", names...), filter("instance-state-name", "pending", "running", "shutting-down", "stopping", "stopped"))
	all := make(map[string]cloud.Instance, len(names))
	err := c.describe(ctx, filters, func(i cloud.Instance, from types.Instance) {
		name := value(from.PrivateDnsName)
		if other, twice := all[name]; twice && other.ID != i.ID {
			i = cloud.Instance{Problem: fmt.Sprintf("%s and %s both have the private DNS name %s; set the Node's providerID (kubelet --provider-id)", cmpID(other, i), i.ID, name)}
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

// cmpID returns the ID of an instance, or of those that its problem names.
func cmpID(known, next cloud.Instance) string {
	if known.ID != "" {
		return known.ID
	}
	text, _, _ := strings.Cut(known.Problem, " both have")
	return text
}

// parts reads keys in parts of mostValues. A part that fails keeps no other back, but
// after one that is denied no further part begins: it would be denied, too.
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
			if err != nil && len(failed) == 0 { // the others fail for the same reason
				failed = append(failed, err)
			}
		})
	}
	running.Wait()
	return all, errors.Join(failed...)
}

// describe passes every instance that the filters select to each. With an error, there
// may be others.
func (c *Client) describe(ctx context.Context, filters []types.Filter, each func(cloud.Instance, types.Instance)) error {
	in := &ec2.DescribeInstancesInput{Filters: filters, MaxResults: aws.Int32(largestPage), IncludeManagedResources: aws.Bool(true)}
	return pages(describeInstances, func() (*string, error) {
		out, err := ask(ctx, c, describeInstances, func(ctx context.Context) (*ec2.DescribeInstancesOutput, error) {
			return c.ec2.DescribeInstances(ctx, in)
		})
		if err != nil {
			return nil, err
		}
		var shown []func() // a page that is wrong somewhere shows nothing
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

// pages calls next until there is no other page. A token that comes twice would never
// end.
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
