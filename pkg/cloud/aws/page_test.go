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
	describeInstances, describeTables, getQuota, createRoute, replaceRoute, deleteRoute, modifyInterface,
	describeSubnets, describeZones, describeGroups, createSecurityGroup, deleteSecurityGroup, authorizeIngress, revokeIngress, describeIngress, createTags,
}, slices.Collect(maps.Keys(balancing))...)

// TestPageHasThePolicyAndTheBudgets: the page's policy allows exactly the client's requests.
// Its table has the budgets.
func TestPageHasThePolicyAndTheBudgets(t *testing.T) {
	text, err := os.ReadFile("../../../Documentation/cloud-aws.md")
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
		t.Fatalf("%v: %s", err, policy)
	}
	var got, want []string
	for _, s := range p.Statement {
		got = append(got, s.Action...)
	}
	for _, action := range used {
		want = append(want, permission(action))
	}
	slices.Sort(got)
	if slices.Sort(want); !slices.Equal(got, want) {
		t.Errorf("the page allows %q, want %q", got, want)
	}
	for _, action := range used {
		b := budgetOf(action, defaultShare)
		row := fmt.Sprintf("| %v | %v |\n", b.Burst, b.Rate)
		if !slices.ContainsFunc(strings.SplitAfter(string(text), "\n"), func(line string) bool {
			return strings.Contains(line, "`"+action+"`") && strings.HasSuffix(line, row)
		}) {
			t.Errorf("no row of %s ends with %q", action, row)
		}
	}
}
