package aws

import (
	"strings"
	"testing"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/cloud/aws/awstest"
)

// TestFindsInstancesByAddress: each private address of an instance finds it, in both families.
// The client reports an unknown, ambiguous or invalid address, and still finds the others.
func TestFindsInstancesByAddress(t *testing.T) {
	f, c := newAccount(t)
	n, twin := f.AddNetwork("10.0.0.0/16", 24, true), f.AddNetwork("10.0.0.0/16", 24, true)
	one := f.Launch(awstest.Launch{Subnet: n.Subnets[0], V6: 1, Tags: tagged, Private: "10.0.0.20"})[0]
	two := f.Launch(awstest.Launch{Subnet: n.Subnets[0], Tags: tagged, Private: "10.0.0.21"})[0]
	f.Launch(awstest.Launch{Subnet: twin.Subnets[0], Tags: tagged, Private: "10.0.0.21"})
	three := f.Launch(awstest.Launch{Subnet: n.Subnets[0], Tags: tagged, Private: "10.0.0.22"})[0]
	f.Launch(awstest.Launch{Subnet: twin.Subnets[0], Private: "10.0.0.22"}) // not ours
	foreign := f.Launch(awstest.Launch{Subnet: n.Subnets[0], Private: "10.0.0.23"})[0]
	over := f.Launch(awstest.Launch{Subnet: n.Subnets[0], Tags: tagged, Private: "10.0.0.24"})[0]
	f.Terminate(over.ID)
	f.Stop(three.ID)

	address := one.V6[0].String()
	got, err := c.Addressed(t.Context(), []string{"10.0.0.20", address, "10.0.0.21", "10.0.0.22", "10.0.0.23", "10.0.0.24", "10.0.0.*", "::ffff:10.0.0.20", "fe80::1%eth0", "10.0.0.20"})
	if err != nil || len(got) != 9 {
		t.Fatalf("%v, %v", got, err)
	}
	for _, key := range []string{"10.0.0.20", address} {
		if i := got[key]; i.ID != one.ID || i.Interface != one.Interface || i.Problem != "" {
			t.Errorf("%s: %+v", key, i)
		}
	}
	if i := got["10.0.0.22"]; i.ID != three.ID || i.State != cloud.Stopped {
		t.Errorf("%+v", i)
	}
	for key, part := range map[string]string{
		"10.0.0.21": two.ID, "10.0.0.23": "no instance with the tag", "10.0.0.24": "no instance with the tag",
		"10.0.0.*": "is not an address", "::ffff:10.0.0.20": "is not an address", "fe80::1%eth0": "is not an address",
	} {
		if i := got[key]; i.ID != "" || !strings.Contains(i.Problem, part) {
			t.Errorf("%s: %+v, want %q", key, i, part)
		}
	}
	if strings.Contains(got["10.0.0.23"].Problem, foreign.ID) {
		t.Error("it names an instance that is not ours")
	}
}

// TestAddressesThatCouldNotBeReadAreMissing: the addresses of a failed read are not absent but
// unknown.
func TestAddressesThatCouldNotBeReadAreMissing(t *testing.T) {
	f, c := newAccount(t)
	at := f.Launch(awstest.Launch{Tags: tagged})[0]
	f.Inject(awstest.Fault{Action: describeInstances, Answer: awstest.Unauthorized})
	got, err := c.Addressed(t.Context(), []string{at.Private.String(), "nonsense"})
	if _, is := got[at.Private.String()]; err == nil || is || len(got) != 1 || got["nonsense"].Problem == "" {
		t.Errorf("%v, %v", got, err)
	}
}
