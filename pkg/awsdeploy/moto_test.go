//go:build aws

package awsdeploy_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/awsdeploy"
	"github.com/tulle-net/tulle/pkg/awsnet"
	"github.com/tulle-net/tulle/pkg/cloud/aws"
	"github.com/tulle-net/tulle/pkg/cloud/aws/awstest"
	"github.com/tulle-net/tulle/pkg/cloud/aws/mototest"
)

// withoutDescriptions returns the steps of a plan without changes of the descriptions of rules from
// security groups. AWS keeps these; moto does not.
func withoutDescriptions(p awsnet.Plan) (all []string) {
	for _, s := range p.Steps {
		if r, is := s.Want.(awsnet.Rule); !is || s.Verb != awsnet.Change || r.Group == (awsnet.Ref{}) {
			all = append(all, s.Summary)
		}
	}
	return all
}

// wantSettled fails the test if a run left anything but descriptions that moto does not keep.
func wantSettled(t *testing.T, r awsdeploy.Result, err error) {
	t.Helper()
	if e, is := errors.AsType[*awsdeploy.RunError](err); err != nil && (!is || len(e.Failed) > 0 || !strings.Contains(err.Error(), "description")) {
		t.Fatal(err)
	}
	if rest := withoutDescriptions(r.View.Plan); len(rest) > 0 || len(r.View.Plan.Problems) > 0 {
		t.Fatalf("%v %+v", rest, r.View.Plan.Problems)
	}
}

// TestMotoDeploys builds a network in three zones in moto's account, and then finds nothing to do.
// It deletes nothing: moto keeps the associations of deleted subnets, and then refuses to delete
// their route tables.
func TestMotoDeploys(t *testing.T) {
	mototest.Start(t)
	l := &lab{TB: t}
	spec := l.spec(threeZones)
	client := func() *aws.Client {
		c, err := aws.New(t.Context(), aws.Options{Networks: true, Share: 1e6, Agent: "test", Config: aws.Config{Region: awstest.Region}})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	calls := func(c *aws.Client) (n int) {
		for call, times := range c.Calls() {
			if n += times; call.Outcome != "ok" {
				t.Errorf("%s: %s", call.Action, call.Outcome)
			}
		}
		return n
	}
	c, began := client(), time.Now()
	r, err := awsdeploy.New(c, l.fast()).Build(t.Context(), spec)
	wantSettled(t, r, err)
	t.Logf("built %d steps with %d calls in %s", r.Done, calls(c), time.Since(began))
	again := client()
	v, err := awsdeploy.New(again, l.fast()).Read(t.Context(), spec)
	if err != nil || len(withoutDescriptions(v.Plan)) > 0 {
		t.Fatalf("%v, %v", err, withoutDescriptions(v.Plan))
	}
	calls(again)
}
