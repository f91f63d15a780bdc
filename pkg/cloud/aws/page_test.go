package aws

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// used are all actions that the client requests.
var used = append([]string{
	describeInstances, describeTopology, describeTables, getQuota, createRoute, replaceRoute, deleteRoute, modifyInterface,
	describeSubnets, describeZones, describeGroups, createSecurityGroup, deleteSecurityGroup, authorizeIngress, revokeIngress, describeIngress, createTags,
}, slices.Collect(maps.Keys(balancing))...)

// networkReads are the reads of networks.
var networkReads = []string{
	describeVPCs, describeVPCAttribute, describeSubnets, describeTables, describeGateways, describeEgress, describeCarriers, describeAddresses, describeNATs, describeEndpoints,
	describeGroups, describeRules, describeInstances, describeInterfaces, describeZones, getQuota,
	describeBalancers, describeTargetGroups, describeListeners, describeTags, describeBalancerAttributes, describeGroupAttributes,
}

// TestPageHasThePolicyAndTheBudgets: the page's policy allows exactly the client's requests.
// Its table has the budgets.
func TestPageHasThePolicyAndTheBudgets(t *testing.T) {
	checkPage(t, "cloud-aws.md", used)
	checkPage(t, "cloud-aws-network.md", slices.Concat(networkReads, slices.Collect(maps.Keys(networkCalls))))
}

// TestNetworkRequestsNothingElse builds and deletes a network: the page has all its requests.
func TestNetworkRequestsNothingElse(t *testing.T) {
	l := newNetworkLab(t)
	l.bastion = true
	l.converge(dualStack)
	l.destroy()
	for call := range l.client.Calls() {
		if !slices.Contains(networkReads, call.Action) && networkCalls[call.Action] == nil {
			t.Errorf("%s is not on the page", call.Action)
		}
	}
}

func checkPage(t *testing.T, page string, used []string) {
	t.Helper()
	text, err := os.ReadFile("../../../Documentation/" + page)
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), "```json\n")
	policy, _, found := strings.Cut(after, "```")
	var p struct {
		Statement []struct {
			Effect string
			Action []string
		}
	}
	if err := json.Unmarshal([]byte(policy), &p); err != nil || !found {
		t.Fatalf("%s: %v: %s", page, err, policy)
	}
	var got, want []string
	for _, s := range p.Statement {
		got = append(got, s.Action...)
	}
	for _, action := range used {
		want = append(want, permission(action))
	}
	slices.Sort(got)
	if slices.Sort(want); !slices.Equal(slices.Compact(got), slices.Compact(want)) {
		t.Errorf("%s allows %q, want %q", page, got, want)
	}
	for _, action := range used {
		b := budgetOf(action, defaultShare)
		row := fmt.Sprintf("| %v | %v |\n", b.Burst, b.Rate)
		if !slices.ContainsFunc(strings.SplitAfter(string(text), "\n"), func(line string) bool {
			return strings.Contains(line, "`"+action+"`") && strings.HasSuffix(line, row)
		}) {
			t.Errorf("%s: no row of %s ends with %q", page, action, row)
		}
	}
}
