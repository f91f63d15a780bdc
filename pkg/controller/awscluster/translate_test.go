package awscluster

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/tulle-net/tulle/pkg/awsnet"
	"github.com/tulle-net/tulle/pkg/kube/capi"
)

// stateOf returns what is kept of an AWSCluster.
func stateOf(t testing.TB, text string) state {
	t.Helper()
	var o object
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		t.Fatal(err)
	}
	_, s := keep(&o)
	return s
}

func TestJobFollowsTheObject(t *testing.T) {
	for text, want := range map[string]struct {
		job      identity
		sweep    bool
		problems []string
	}{
		`{"metadata": {"name": "a", "uid": "u"}, "spec": {"region": "us-east-1"}}`: {job: identity{"us-east-1", "prod", "u"}},
		`{"metadata": {"name": "a", "uid": "u", "annotations": {"tulle.net/network": "us-east-1/prod/first/uid"}}, "spec": {"region": "us-east-1"}}`: {
			job: identity{"us-east-1", "prod", "first/uid"},
		},
		`{"metadata": {"name": "a", "uid": "u", "annotations": {"tulle.net/network": "us-east-1/prod/u"}}, "spec": {"region": "us-east-2"}}`: {
			job: identity{"us-east-1", "prod", "u"}, problems: []string{`spec.region: "us-east-2"`},
		},
		`{"metadata": {"name": "a", "uid": "u", "deletionTimestamp": "x", "annotations": {"tulle.net/network": "us-east-1/prod/u"}}, "spec": {"region": "us-east-2"}}`: {
			job: identity{"us-east-1", "prod", "u"},
		},
		`{"metadata": {"name": "a", "uid": "u", "annotations": {"tulle.net/network": "us-east-1"}}, "spec": {"region": "us-east-1"}}`: {
			job: identity{"us-east-1", "prod", "u"}, problems: []string{"metadata.annotations[tulle.net/network]", "restore it"},
		},
		`{"metadata": {"name": "a", "uid": "u", "annotations": {"tulle.net/delete-leftovers": "yes"}}, "spec": {"region": "us-east-1"}}`: {
			job: identity{"us-east-1", "prod", "u"}, problems: []string{`"yes" is neither true nor false`},
		},
		`{"metadata": {"name": "a", "uid": "u", "annotations": {"tulle.net/delete-leftovers": "true"}}, "spec": {"region": "us-east-1"}}`: {
			job: identity{"us-east-1", "prod", "u"}, sweep: true,
		},
		`{"metadata": {"name": "a", "uid": "u"}, "spec": {"region": "Mars"}}`: {job: identity{"Mars", "prod", "u"}, problems: []string{`"Mars" is no region`}},
		`{"metadata": {"name": "a", "uid": "u"}}`:                             {job: identity{"", "prod", "u"}, problems: []string{`"" is no region`}},
		`{"metadata": {"name": "a", "uid": "u"}, "spec": {"region": 7}}`:      {job: identity{"", "prod", "u"}, problems: []string{"cannot be read", "correct it"}},
		`{"metadata": {"name": "a", "uid": "u"}, "spec": {"region": "us-east-1", "controlPlaneEndpoint": {"port": "x"}}}`: {
			job: identity{"us-east-1", "prod", "u"}, problems: []string{"spec: ", "port"},
		},
		`{"metadata": {"name": "a", "uid": "u"}, "spec": {"region": "us-east-1", "identityRef": {"kind": "AWSClusterControllerIdentity", "name": "default"}}}`: {
			job: identity{"us-east-1", "prod", "u"},
		},
		`{"metadata": {"name": "a", "uid": "u"}, "spec": {"region": "us-east-1", "identityRef": {"kind": "AWSClusterStaticIdentity", "name": "x"}}}`: {
			job: identity{"us-east-1", "prod", "u"}, problems: []string{"spec.identityRef", "AWSClusterStaticIdentity x"},
		},
		// What names the network of another Cluster, or cannot be part of a host name or a tag.
		`{"metadata": {"name": "a", "uid": "u", "annotations": {"tulle.net/network": "us-east-1/other/v"}}, "spec": {"region": "us-east-1"}}`: {
			job: identity{"us-east-1", "other", "v"}, problems: []string{`Cluster "other"`, `Cluster "prod" owns this object`},
		},
		`{"metadata": {"name": "a", "uid": "u", "deletionTimestamp": "x", "annotations": {"tulle.net/network": "us-east-1/other/v"}}, "spec": {"region": "us-east-1"}}`: {
			job: identity{"us-east-1", "other", "v"}, problems: []string{`Cluster "other"`},
		},
		`{"metadata": {"name": "a", "uid": "u", "deletionTimestamp": "x", "annotations": {"tulle.net/network": "example.org#/prod/v"}}, "spec": {"region": "us-east-1"}}`: {
			job: identity{"example.org#", "prod", "v"}, problems: []string{`"example.org#" is no region`},
		},
		`{"metadata": {"name": "a", "uid": "u", "deletionTimestamp": "x"}, "spec": {"region": "example.org"}}`: {
			job: identity{"example.org", "prod", "u"}, problems: []string{`"example.org" is no region`},
		},
		`{"metadata": {"name": "a", "uid": "u", "deletionTimestamp": "x", "annotations": {"tulle.net/network": "us-east-1/prod/a*"}}, "spec": {"region": "us-east-1"}}`: {
			job: identity{"us-east-1", "prod", "a*"}, problems: []string{`"a*" cannot be the value of a tag`},
		},
		`{"metadata": {"name": "a", "uid": "u"}, "spec": {"region": "us-east-1", "controlPlaneEndpoint": {"host": "a", "port": 0}}}`: {
			job: identity{"us-east-1", "prod", "u"}, problems: []string{"spec.controlPlaneEndpoint", `"a"`, "port 0", "set both"},
		},
	} {
		j, problems := jobOf(stateOf(t, text), "prod", 8443)
		if j.spec.APIPort != 8443 {
			t.Errorf("%s: port %d", text, j.spec.APIPort)
		}
		if j.identity != want.job || j.sweep != want.sweep || j.spec.Cluster != want.job.cluster || j.spec.UID != want.job.uid {
			t.Errorf("%s: %+v", text, j)
		}
		all := problemsText(problems)
		if (len(want.problems) == 0) != (len(problems) == 0) || slices.ContainsFunc(want.problems, func(p string) bool { return !strings.Contains(all, p) }) {
			t.Errorf("%s: %s", text, all)
		}
	}
}

func TestFailureDomainsHaveTheFormOfTheContract(t *testing.T) {
	all := []domain{{"a", true}, {"b", false}}
	for contract, want := range map[capi.Contract]string{
		capi.Beta1: `{"a":{"controlPlane":true},"b":{"controlPlane":false}}`,
		capi.Beta2: `[{"name":"a","controlPlane":true},{"name":"b","controlPlane":false}]`,
	} {
		text, err := json.Marshal(form(all, contract))
		if err != nil || string(text) != want {
			t.Errorf("%s: %s, %v", contract, text, err)
		}
		for other := range map[capi.Contract]bool{capi.Beta1: true, capi.Beta2: true} {
			if back, ok := readDomains(text, other); ok != (other == contract) || ok && !slices.Equal(back, all) {
				t.Errorf("%s as %s: %v, %v", contract, other, back, ok)
			}
		}
	}
}

// TestDomainsAreThoseOfThePrivateSubnets: machines of the control plane belong in private
// subnets of regular zones if there are any, and where the balancer reaches.
func TestDomainsAreThoseOfThePrivateSubnets(t *testing.T) {
	private := awsnet.Net{Zone: "a", ZoneType: awsnet.RegularZone}
	public := awsnet.Net{Zone: "b", ZoneType: awsnet.RegularZone, Public: true}
	local := awsnet.Net{Zone: "l", ZoneType: awsnet.LocalZone}
	pods := awsnet.Net{Zone: "c", ZoneType: awsnet.RegularZone, PodsOnly: true}
	for name, c := range map[string]struct {
		nets  []awsnet.Net
		front []awsnet.Front
		want  []domain
	}{
		"private first":   {[]awsnet.Net{public, private, local, pods}, nil, []domain{{"a", true}}},
		"public alone":    {[]awsnet.Net{public, local}, nil, []domain{{"b", true}}},
		"out of reach":    {[]awsnet.Net{private, {Zone: "d"}}, []awsnet.Front{{Subnets: []int{0}}}, []domain{{"a", true}, {"d", false}}},
		"over all zones":  {[]awsnet.Net{private, {Zone: "d"}}, []awsnet.Front{{Subnets: []int{0}, CrossZone: true}}, []domain{{"a", true}, {"d", true}}},
		"twice in a zone": {[]awsnet.Net{private, private}, nil, []domain{{"a", true}}},
		"none":            {nil, nil, nil},
	} {
		if got := factsOf(awsnet.View{Network: awsnet.Network{Subnets: c.nets, Balancers: c.front}}).domains; !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// FuzzObject: whatever an object says, it is read or has an error of its own, and its job has
// either no problem or one with a text.
func FuzzObject(f *testing.F) {
	for _, spec := range []string{small, `{}`, `[]`, `{"region": 7}`, `{"controlPlaneEndpoint": {"host": 1}}`, `{"identityRef": {"kind": "x"}}`} {
		f.Add(`{"metadata": {"name": "a", "uid": "u", "annotations": {"tulle.net/network": "a/b/c"}}, "spec": ` + spec + `, "status": {"conditions": [7]}}`)
	}
	f.Add(`{"metadata": {"ownerReferences": [{}]}, "status": {"failureDomains": 1}}`)
	f.Fuzz(func(t *testing.T, text string) {
		var o object
		if json.Unmarshal([]byte(text), &o) != nil {
			return
		}
		_, s := keep(&o)
		_, problems := jobOf(s, "prod", 0)
		for _, p := range problems {
			if p.Field == "" || p.Text == "" || len(p.Text) > 2000 {
				t.Errorf("%q: %+v", text, p)
			}
		}
		if s.err != nil && len(problems) == 0 {
			t.Errorf("%q: %v is no problem", text, s.err)
		}
	})
}
