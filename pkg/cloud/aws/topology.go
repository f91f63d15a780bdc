package aws

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/smithy-go"
	"k8s.io/klog/v2"

	"github.com/tulle-net/tulle/pkg/cloud"
)

const (
	describeTopology = "DescribeInstanceTopology"
	// mostPlaced is the maximum number of IDs in a request for the topology.
	mostPlaced = 100
	// mostLayers is the maximum number of layers of network nodes. AWS has three or four.
	mostLayers = 9
	// unsupportedTime is how long the Client sends no request for the topology after
	// AWS answered that the region has none. deniedTime is that time after a missing
	// permission.
	unsupportedTime, deniedTime = 24 * time.Hour, time.Hour
)

// usualLayered are the types whose instances have a place in the network's topology, as in AWS's
// own controller: those for machine learning and high-performance computing.
const usualLayered = `^(hpc|trn|p)[0-9]+[a-z]*(-[a-z0-9]+)?\.[0-9a-z]+$`

// instanceIDs finds the IDs in an error's text.
var instanceIDs = regexp.MustCompile(`\bi-(?:[0-9a-f]{17}|[0-9a-f]{8})\b`)

// topology is the Client's state about requests for the network's topology.
type topology struct {
	layered *regexp.Regexp // types of instances

	mu    sync.Mutex
	until time.Time // no request is sent before this time
}

// rests reports whether no request may be sent now.
func (t *topology) rests() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return time.Now().Before(t.until)
}

// rest stops the requests for a while.
func (t *topology) rest(d time.Duration, why error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.until = time.Now().Add(d)
	klog.InfoS("Initialising Nodes without the labels of the network's topology", "for", d, "err", why)
}

// Layered reports whether instances of a type have a place in the network's topology.
func (c *Client) Layered(kind string) bool { return c.topology.layered.MatchString(kind) }

// NetworkNodes returns the network nodes above instances, from the top layer, keyed by
// the instances' IDs. An instance without a place has none. All have none if the region
// lacks the topology or the permission is missing. If NetworkNodes returns an error,
// the places of the instances that the result lacks are unknown.
func (c *Client) NetworkNodes(ctx context.Context, ids []string) (map[string][]string, error) {
	all := make(map[string][]string, len(ids))
	var failed error
	for part := range slices.Chunk(slices.Compact(slices.Sorted(slices.Values(ids))), mostPlaced) {
		err := c.place(ctx, part, all)
		if failed == nil { // the other parts fail for the same reason
			failed = err
		}
		if cloud.KindOf(err) == cloud.Denied {
			break // the other parts would be denied, too
		}
	}
	return all, failed
}

// place adds the network nodes above at most mostPlaced instances to all. AWS refuses a
// request if one of its instances does not exist, so place repeats the request without
// the instances that the error names.
func (c *Client) place(ctx context.Context, ids []string, all map[string][]string) (missing error) {
	for len(ids) > 0 {
		found, err := c.topologyOf(ctx, ids)
		if err == nil {
			for _, id := range ids {
				all[id] = found[id]
			}
			return missing
		}
		if cloud.KindOf(err) != cloud.Missing {
			return err
		}
		gone := instanceIDs.FindAllString(err.Error(), -1)
		rest := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return slices.Contains(gone, id) })
		if len(rest) == len(ids) {
			return err
		}
		missing, ids = err, rest
	}
	return missing
}

// topologyOf returns the network nodes above instances, as far as AWS shows them.
func (c *Client) topologyOf(ctx context.Context, ids []string) (map[string][]string, error) {
	if c.topology.rests() {
		return nil, nil
	}
	found := make(map[string][]string, len(ids))
	code := ""
	in := &ec2.DescribeInstanceTopologyInput{InstanceIds: ids}
	err := pages(describeTopology, func() (*string, error) {
		out, err := query(ctx, c, describeTopology, func(ctx context.Context) (*ec2.DescribeInstanceTopologyOutput, error) {
			out, err := c.ec2.DescribeInstanceTopology(ctx, in)
			if refused, is := errors.AsType[smithy.APIError](err); is {
				code = refused.ErrorCode()
			}
			return out, err
		})
		if err != nil {
			return nil, err
		}
		for _, i := range out.Instances {
			id := value(i.InstanceId)
			for layer, node := range i.NetworkNodes[:min(mostLayers, len(i.NetworkNodes))] {
				found[id] = append(found[id], c.labels.Check(fmt.Sprint("network node of layer ", layer+1), node, id, labelValue))
			}
		}
		in.NextToken = out.NextToken
		return out.NextToken, nil
	})
	switch {
	case err == nil:
		return found, nil
	case code == "UnsupportedOperation":
		c.topology.rest(unsupportedTime, err)
		return nil, nil
	case code == "UnauthorizedOperation":
		c.topology.rest(deniedTime, err)
		return nil, nil
	}
	return nil, err
}
