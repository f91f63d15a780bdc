package aws

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/cloud/aws/awstest"
)

// TestTypesWithAPlaceInTheNetwork checks that the default types are those of AWS's own
// controller, and that a cloud config may choose others.
func TestTypesWithAPlaceInTheNetwork(t *testing.T) {
	_, c := newAccount(t)
	for kind, want := range map[string]bool{
		"p5.48xlarge": true, "p4d.24xlarge": true, "p6-b200.48xlarge": true, "p6e-gb200.36xlarge": true, "trn1.32xlarge": true, "trn2u.48xlarge": true, "hpc7g.16xlarge": true,
		"": false, "m5.large": false, "t3.medium": false, "g6.xlarge": false, "inf2.xlarge": false, "p": false, "p5": false, "hpc": false, "xp5.48xlarge": false,
	} {
		if got := c.Layered(kind); got != want {
			t.Errorf("%q: %t", kind, got)
		}
	}
	c = newClient(t, "[Global]\nSupportedTopologyInstanceTypePattern = ^g6[.]\n")
	if !c.Layered("g6.xlarge") || c.Layered("p5.48xlarge") {
		t.Error("the pattern of the cloud config has no effect")
	}
}

// newNetwork returns an account, and a Client whose request rate is not limited.
func newNetwork(t *testing.T) (*awstest.Server, *Client) {
	t.Helper()
	f := awstest.New(t)
	f.Setenv(t)
	c, err := New(t.Context(), Options{Config: Config{Families: []string{"ipv4"}}, Cluster: "prod", Agent: "test", Share: 100})
	if err != nil {
		t.Fatal(err)
	}
	return f, c
}

// placed launches instances that have a place in the network, and returns their IDs.
func placed(f *awstest.Server, n int) (ids []string) {
	for _, i := range f.Launch(awstest.Launch{Count: n, Type: "p5.48xlarge"}) {
		ids = append(ids, i.ID)
	}
	return ids
}

// topologies returns the number of requests for the topology.
func topologies(c *Client) (n int) {
	for call, times := range c.Calls() {
		if call.Action == describeTopology {
			n += times
		}
	}
	return n
}

// TestNetworkNodesOfManyInstances checks that a request covers 100 instances. An
// instance without a place is in the result, without network nodes.
func TestNetworkNodesOfManyInstances(t *testing.T) {
	f, c := newNetwork(t)
	ids := placed(f, 150)
	other := f.Launch(awstest.Launch{})[0].ID
	got, err := c.NetworkNodes(t.Context(), append(slices.Clone(ids), other, ids[0]))
	if err != nil || len(got) != 151 || topologies(c) != 2 {
		t.Fatalf("%d places, %d requests, %v", len(got), topologies(c), err)
	}
	if nodes, has := got[other]; !has || len(nodes) > 0 {
		t.Errorf("the place of %s is %q", other, nodes)
	}
	zone := strings.TrimSuffix(got[ids[0]][0], "-1")
	for _, id := range ids {
		if want := []string{zone + "-1", zone + "-2", "nn-" + id[len(id)-2:]}; !slices.Equal(got[id], want) {
			t.Errorf("the place of %s is %q, want %q", id, got[id], want)
		}
	}
	if got, err := c.NetworkNodes(t.Context(), nil); err != nil || len(got) > 0 || topologies(c) != 2 {
		t.Errorf("%v, %v", got, err)
	}
}

// TestAMissingInstanceHoldsUpNoOther checks the other instances of a request that AWS
// refuses because one does not exist.
func TestAMissingInstanceHoldsUpNoOther(t *testing.T) {
	f, c := newNetwork(t)
	ids := placed(f, 3)
	gone := []string{"i-0123456789abcdef0", "i-0123456789abcdef1"}
	got, err := c.NetworkNodes(t.Context(), append(slices.Clone(gone), ids...))
	if wantKind(t, err, cloud.Missing); !slices.Equal(slices.Sorted(maps.Keys(got)), slices.Sorted(slices.Values(ids))) || len(got[ids[0]]) != 3 {
		t.Errorf("%v, %v", got, err)
	}
	end := f.Inject(awstest.Fault{Action: describeTopology, Answer: &awstest.Error{Code: "InvalidInstanceID.NotFound", Message: "some do not exist", Status: http.StatusBadRequest}})
	if got, err = c.NetworkNodes(t.Context(), ids); len(got) > 0 {
		t.Errorf("%v", got)
	}
	wantKind(t, err, cloud.Missing)
	if struck := end(); struck != 1 {
		t.Errorf("%d requests, though the error names no instance", struck)
	}
}

// TestWithoutTheTopologyNoRequestIsRepeated checks a region without the action, and a
// missing permission: all instances are without a place, and the next request waits.
func TestWithoutTheTopologyNoRequestIsRepeated(t *testing.T) {
	for code, rest := range map[string]time.Duration{"UnsupportedOperation": unsupportedTime, "UnauthorizedOperation": deniedTime} {
		f, c := newNetwork(t)
		ids := placed(f, 120)
		end := f.Inject(awstest.Fault{Action: describeTopology, Answer: &awstest.Error{Code: code, Message: "no", Status: http.StatusBadRequest}})
		for range 3 {
			got, err := c.NetworkNodes(t.Context(), ids)
			if err != nil || len(got) != len(ids) || len(got[ids[0]]) > 0 {
				t.Errorf("%s: %d places, %v", code, len(got), err)
			}
		}
		if n := end(); n != 1 {
			t.Errorf("%s: %d requests", code, n)
		}
		if left := time.Until(c.topology.until); left > rest || left < rest-time.Minute {
			t.Errorf("%s: the next request waits for %s", code, left)
		}
		c.topology.until = time.Time{}
		if got, err := c.NetworkNodes(t.Context(), ids[:1]); err != nil || len(got[ids[0]]) != 3 {
			t.Errorf("%s: afterwards: %v, %v", code, got, err)
		}
	}
}

// TestFailedRequestsForTheTopology checks that the places are unknown after any other
// failure.
func TestFailedRequestsForTheTopology(t *testing.T) {
	for code, kind := range map[string]cloud.Kind{"InternalError": cloud.Unavailable, "RequestLimitExceeded": cloud.Throttled, "ExpiredToken": cloud.Denied, "InvalidParameterValue": cloud.Refused} {
		f, c := newNetwork(t)
		n := 1
		if kind == cloud.Denied {
			n = mostPlaced + 1
		}
		ids := placed(f, n)
		end := f.Inject(awstest.Fault{Action: describeTopology, Answer: &awstest.Error{Code: code, Message: "no", Status: http.StatusBadRequest}})
		got, err := c.NetworkNodes(within(t, 5*time.Second), ids)
		if wantKind(t, err, kind); len(got) > 0 {
			t.Errorf("%s: %v", code, got)
		}
		if struck := end(); kind == cloud.Denied && struck != 1 {
			t.Errorf("%s: %d requests", code, struck)
		}
	}
}

// TestStrangeNetworkNodes checks that a network node whose ID cannot be a label is left
// out, and that the others keep their layers. There are at most nine layers.
func TestStrangeNetworkNodes(t *testing.T) {
	const id = "i-0123456789abcdef0"
	nodes := "<item>nn-1</item><item>not a label!</item><item>nn-3</item>"
	for k := range 20 {
		nodes += fmt.Sprintf("<item>nn-%d</item>", k+4)
	}
	newAccount(t) // for its credentials
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, `<DescribeInstanceTopologyResponse><instanceSet><item><instanceId>%s</instanceId><networkNodeSet>%s</networkNodeSet></item><item/></instanceSet></DescribeInstanceTopologyResponse>`, id, nodes)
	}))
	t.Cleanup(s.Close)
	c := newClient(t, "[ServiceOverride \"1\"]\nService = ec2\nURL = "+s.URL+"\n")
	got, err := c.NetworkNodes(t.Context(), []string{id})
	if want := []string{"nn-1", "", "nn-3", "nn-4", "nn-5", "nn-6", "nn-7", "nn-8", "nn-9"}; err != nil || len(got) != 1 || !slices.Equal(got[id], want) {
		t.Errorf("%q, %v", got, err)
	}
}
