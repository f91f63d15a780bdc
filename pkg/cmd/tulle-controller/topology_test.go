package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tulle-net/tulle/pkg/cloud/aws/awstest"
	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
)

// TestNodesOfAWSGetTheirPlace: Nodes for machine learning get the labels of the network nodes
// above them. Nodes of other types cost no request for that, and one without the permission is
// initialised without the labels.
func TestNodesOfAWSGetTheirPlace(t *testing.T) {
	const layer = "topology.k8s.aws/network-node-layer-"
	for name, is := range map[string]struct {
		kind             string
		fault            *awstest.Error
		layers, requests int
	}{
		"machine learning": {kind: "trn1.32xlarge", layers: 3, requests: 1},
		"another type":     {kind: "m5.large"},
		"not permitted":    {kind: "p5.48xlarge", fault: &awstest.Error{Status: 403, Code: "UnauthorizedOperation", Message: "You are not authorized to perform this operation."}, requests: 1},
		"another region":   {kind: "hpc7g.16xlarge", fault: &awstest.Error{Status: 400, Code: "UnsupportedOperation", Message: "The functionality is not supported in this region."}, requests: 1},
	} {
		t.Run(name, func(t *testing.T) {
			c, f, instances := newAWSOf(t, 5, is.kind)
			if is.fault != nil {
				f.Inject(awstest.Fault{Action: "DescribeInstanceTopology", Answer: is.fault})
			}
			p, err := settingsOf(t, append([]string{"--master=" + c.URL}, onFake...)...).connect()
			if err != nil {
				t.Fatal(err)
			}
			r := c.run(p)
			c.awaitInitialised(instances)
			r.await("leading; every Node matches its instance")
			for _, at := range instances {
				labels := c.Node(at.Name).Labels
				n := 0
				for key := range labels {
					if strings.HasPrefix(key, layer) {
						n++
					}
				}
				if n != is.layers || n > 0 && (!strings.HasPrefix(labels[layer+"1"], "nn-") || labels[layer+"1"] == labels[layer+"3"]) {
					t.Errorf("the labels of %s are %v", at.Name, labels)
				}
			}
			if n := f.Count("DescribeInstanceTopology"); n != is.requests {
				t.Errorf("%d requests for places, want %d", n, is.requests)
			}
		})
	}
}

// TestANodeOfAWSWaitsForItsPlace: while AWS does not answer about places, a Node for machine
// learning keeps its taint, and readyz names the reason. Other Nodes do not wait.
func TestANodeOfAWSWaitsForItsPlace(t *testing.T) {
	c, f, instances := newAWSOf(t, 2, "p5.48xlarge")
	end := f.Inject(awstest.Fault{Action: "DescribeInstanceTopology", Answer: &awstest.Error{Status: 400, Code: "InvalidParameterValue", Message: "not now"}})
	p, err := settingsOf(t, append([]string{"--master=" + c.URL}, onFake...)...).connect()
	if err != nil {
		t.Fatal(err)
	}
	r := c.run(p)
	kerneltest.Eventually(t, patience, func() error {
		for _, feed := range r.read(t.Context()).state.Feeds {
			if strings.Contains(feed.Problem, "DescribeInstanceTopology: InvalidParameterValue: not now") {
				return nil
			}
		}
		return fmt.Errorf("no problem names the request")
	})
	for _, at := range instances {
		if !waits(c.Node(at.Name)) {
			t.Errorf("%s is initialised without its place", at.Name)
		}
	}
	end()
	c.awaitInitialised(instances)
	if n := c.Node(instances[0].Name).Labels["topology.k8s.aws/network-node-layer-2"]; n == "" {
		t.Error("a Node is initialised without its place")
	}
}
