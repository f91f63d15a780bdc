package awsnet

import (
	"strings"
	"testing"
)

// TestDraftFindsWhatNeedsNoZones: without zones, Complete refuses what no zones could repair, and
// nothing else.
func TestDraftFindsWhatNeedsNoZones(t *testing.T) {
	for spec, want := range map[string]string{
		"network: {vpc: {cidrBlock: 10.0.0.0/24}}":   "",
		"network: {vpc: {cidrBlock: 10.0.0.0/26}}":   "", // two zones would do
		"network: {vpc: {cidrBlock: 10.0.0.0/28}}":   "too small",
		"network: {vpc: {cidrBlock: 10.0.0.1/24}}":   "has host bits; use 10.0.0.0/24",
		"network: {vpc: {cidrBlock: 10.0.0.300/24}}": "is no block of IPv4",
		"network: {vpc: {cidrBlock: 10.0.0.0/16}, subnets: [{id: a, cidrBlock: 10.0.0.0/24, availabilityZone: us-east-1f, isPublic: true}]}":                                                                  "",
		"network: {vpc: {cidrBlock: 10.0.0.0/16}, subnets: [{id: a, cidrBlock: 10.0.0.0/24, availabilityZone: us-west-2a, isPublic: true}]}":                                                                  "is no zone of us-east-1",
		"network: {vpc: {cidrBlock: 10.0.0.0/16}, subnets: [{id: a, cidrBlock: 10.0.0.0/24, availabilityZone: us-east-1b}]}":                                                                                  "no public subnet",
		"network: {vpc: {cidrBlock: 10.0.0.0/16}, subnets: [{id: a, cidrBlock: 10.0.0.0/24, availabilityZone: us-east-1b, isPublic: true}, {id: b, cidrBlock: 10.0.0.128/25, availabilityZone: us-east-1b}]}": "overlaps",
	} {
		_, problems := Complete(specOf(t, spec), nil)
		if text := strings.Join(texts(problems), "\n"); want == "" && text != "" || !strings.Contains(text, want) {
			t.Errorf("%s: %q, want %q", spec, text, want)
		}
	}
	if _, problems := Complete(specOf(t, "network: {}"), []Zone{}); len(problems) == 0 {
		t.Error("a region without zones is accepted")
	}
}

func texts(all []Problem) (lines []string) {
	for _, p := range all {
		lines = append(lines, p.String())
	}
	return lines
}

// TestSeeAndSeeEnd: a View has the spec's meaning, what is ours, and what is left to do.
func TestSeeAndSeeEnd(t *testing.T) {
	v, problems := See(specOf(t, "network: {vpc: {cidrBlock: 10.0.0.0/24}}"), zones, Account{})
	if len(problems) > 0 || v.Done() || len(v.Zones()) != 3 {
		t.Fatalf("%v %v", problems, v.Zones())
	}
	if host, port := v.Endpoint(); host != "" || port != 6443 {
		t.Errorf("%q %d", host, port)
	}
	if end := SeeEnd(v.Network.Owner, Account{}, false); !end.Done() {
		t.Errorf("%+v", end.Plan)
	}
}
