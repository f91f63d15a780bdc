package aws

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/cloud/aws/awstest"
)

// addOthers adds foreign load balancers and target groups without the client.
func addOthers(t *testing.T, f *awstest.Server, n int, name func(i int) string, cluster string) {
	t.Helper()
	do := func(action string, parameters ...string) string {
		t.Helper()
		text, err := f.Do(action, append(parameters, "Tags.member.1.Key", "kubernetes.io/cluster/"+cluster, "Tags.member.1.Value", "owned")...)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	arn := func(text, element string) string {
		_, text, _ = strings.Cut(text, "<"+element+">")
		text, _, _ = strings.Cut(text, "<")
		return text
	}
	for i := range n {
		b := do("CreateLoadBalancer", "Name", name(i), "Type", "network", "Scheme", "internal", "Subnets.member.1", f.Default().Subnets[i%3])
		g := do("CreateTargetGroup", "Name", fmt.Sprint("k8s-", i, "-", cluster), "VpcId", f.Default().VPC, "Protocol", "TCP", "Port", "80", "TargetType", "instance")
		do("CreateListener", "LoadBalancerArn", arn(b, "LoadBalancerArn"), "Protocol", "TCP", "Port", "80", "DefaultActions.member.1.Type", "forward", "DefaultActions.member.1.TargetGroupArn", arn(g, "TargetGroupArn"))
	}
}

// TestPassFitsInALookupDespiteThousandsOfForeign: names and listeners identify most foreign
// objects, and a pass does not read the tags of all others again.
func TestPassFitsInALookupDespiteThousandsOfForeign(t *testing.T) {
	f, c := newBalancing(t)
	f.Set(func(s *awstest.Settings) { s.Balancers, s.TargetGroups = 5000, 5000 })
	c.marked.foreign = 3 * mostARNs
	addOthers(t, f, 40, func(i int) string { return fmt.Sprint("k8s-other-", i) }, "lbc")
	addOthers(t, f, 100, func(i int) string { return balancerOf(fmt.Sprint("other-", i)) }, "ccm")
	// Half of the published bucket allows 20 requests and 5 a second: 170 in a lookup. Of
	// thousands of foreign objects, a pass may read the tags of mostForeign again.
	if most := mostForeign/mostARNs + 2*(10_000/largestELBPage); most > 170/2 {
		t.Errorf("%d requests leave no room for others", most)
	}
	mine := expose(t, f, c, "web")
	read := func(ctx context.Context) (requests int, err error) {
		before := f.Count("")
		all, err := c.Balancing(ctx)
		if err == nil && (len(all.Balancers) != 1 || len(all.Groups) != 1 || all.Balancers[0].ID != mine.balancer) {
			t.Errorf("%d load balancers, %d target groups", len(all.Balancers), len(all.Groups))
		}
		return f.Count("") - before, err
	}
	// The first pass fails in the middle of the tags. The next one continues there.
	ctx, cancel := context.WithCancel(t.Context())
	var tags atomic.Int32
	f.Inject(awstest.Fault{Action: describeTags, When: func(awstest.Call) bool {
		if tags.Add(1) == 9 {
			cancel()
		}
		return false
	}})
	if _, err := read(ctx); err == nil {
		t.Error("it was not cut off")
	}
	n, err := read(t.Context())
	if err != nil || n > 10 {
		t.Errorf("the second reading takes %d requests, %v", n, err)
	}
	if n, err = read(t.Context()); err != nil || n > 8 {
		t.Errorf("the third reading takes %d requests, %v", n, err)
	}
	// The next passes find an object that a person has handed over by tagging it.
	handed := f.Balancers()[120].ARN
	if _, err := f.Do("AddTags", "ResourceArns.member.1", handed, "Tags.member.1.Key", tag, "Tags.member.1.Value", "owned"); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		all, err := c.Balancing(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(all.Balancers) == 2 {
			return
		}
	}
	t.Error("a load balancer that was handed over is not found")
}

// TestEachPassReadsTheTagsOfOurs: an object that has lost its tags is foreign in the next pass.
// The cache forgets deleted objects.
func TestEachPassReadsTheTagsOfOurs(t *testing.T) {
	f, c := newBalancing(t)
	a, b := expose(t, f, c, "a"), expose(t, f, c, "b")
	if all, err := c.Balancing(t.Context()); err != nil || len(all.Balancers) != 2 {
		t.Fatalf("%+v, %v", all.Balancers, err)
	}
	for _, id := range []string{a.balancer, a.group} {
		if _, err := f.Do("RemoveTags", "ResourceArns.member.1", id, "TagKeys.member.1", tag); err != nil {
			t.Fatal(err)
		}
	}
	mustChange(t, c, cloud.BalancerChange{Verb: cloud.DeleteBalancer, Balancer: cloud.Balancer{ID: b.balancer}})
	all, err := c.Balancing(t.Context())
	if err != nil || len(all.Balancers) != 0 || len(all.Groups) != 1 || all.Groups[0].ID != b.group {
		t.Errorf("%+v, %v", all, errors.Join(err))
	}
	if len(c.marked.known) != 3 {
		t.Errorf("%d are remembered", len(c.marked.known))
	}
}
