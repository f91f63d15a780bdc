package capi

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"
)

func decode(t *testing.T, text string) (c Cluster) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestClustersOfBothVersionsAreRead(t *testing.T) {
	for version, text := range map[string]string{
		"v1beta1": `{"metadata":{"namespace":"a","name":"prod"},"spec":{"paused":true,"controlPlaneEndpoint":{"host":"h","port":6443},
			"infrastructureRef":{"apiVersion":"infrastructure.cluster.x-k8s.io/v1beta2","kind":"AWSCluster","name":"prod","namespace":"a"}},
			"status":{"infrastructureReady":true,"failureDomains":{"a":{"controlPlane":true}}}}`,
		"v1beta2": `{"metadata":{"namespace":"a","name":"prod","annotations":{"cluster.x-k8s.io/paused":""}},"spec":{"controlPlaneEndpoint":{"host":"h","port":6443},
			"infrastructureRef":{"apiGroup":"infrastructure.cluster.x-k8s.io","kind":"AWSCluster","name":"prod"}},
			"status":{"initialization":{"infrastructureProvisioned":true},"failureDomains":[{"name":"a"}]}}`,
	} {
		c := decode(t, text)
		if !c.Paused() || c.Spec.Endpoint != (Endpoint{"h", 6443}) || !c.Spec.Infrastructure.In("infrastructure.cluster.x-k8s.io", "AWSCluster") || c.Metadata.Key() != "a/prod" {
			t.Errorf("%s: %+v", version, c)
		}
		if c.Status.InfrastructureReady == c.Status.Initialization.Infrastructure || c.Unreadable != "" {
			t.Errorf("%s: %+v", version, c.Status)
		}
	}
}

// What cannot be read counts as paused: it may be a pause.
func TestUnreadableClusterIsPaused(t *testing.T) {
	for _, text := range []string{`{"metadata":{"name":"a"},"spec":{"paused":"yes"}}`, `{"metadata":{"name":"a"},"spec":[]}`} {
		if c := decode(t, text); !c.Paused() || c.Unreadable == "" || c.Metadata.Name != "a" {
			t.Errorf("%s: %+v", text, c)
		}
	}
	if c := decode(t, `{"metadata":{"name":"a"},"status":{"conditions":7}}`); c.Paused() || c.Unreadable == "" {
		t.Errorf("%+v", c)
	}
}

func TestOwnerIsAClusterOfTheGroup(t *testing.T) {
	for text, want := range map[string]bool{
		`[]`: false,
		`[{"apiVersion":"cluster.x-k8s.io/v1beta1","kind":"Cluster","name":"prod","uid":"u"}]`:                                                                true,
		`[{"apiVersion":"v1","kind":"ConfigMap","name":"prod","uid":"u"},{"apiVersion":"cluster.x-k8s.io/v1beta2","kind":"Cluster","name":"prod","uid":"u"}]`: true,
		`[{"apiVersion":"example.org/v1","kind":"Cluster","name":"prod","uid":"u"}]`:                                                                          false,
		`[{"apiVersion":"cluster.x-k8s.io/v1beta2","kind":"MachinePool","name":"prod","uid":"u"}]`:                                                            false,
		`[{"apiVersion":"cluster.x-k8s.io/v1beta2","kind":"Cluster","name":"prod"}]`:                                                                          false,
	} {
		var owners []Owner
		if err := json.Unmarshal([]byte(text), &owners); err != nil {
			t.Fatal(err)
		}
		if _, got := ClusterOf(owners); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}

func TestEndpointsAreChecked(t *testing.T) {
	for e, want := range map[Endpoint]bool{
		{"prod.elb.amazonaws.com", 6443}: true, {"10.0.0.1", 1}: true, {"", 6443}: false, {"h", 0}: false, {"h", 65536}: false,
		{"h h", 1}: false, {"h/x", 1}: false, {"u@h", 1}: false, {"h?x", 1}: false, {"h#", 1}: false, {"h%41", 1}: false, {"h\n", 1}: false,
		{"2001:db8::1", 6443}: true, {"fe80::1%eth0", 1}: false, {"a:b", 1}: false, {"[::1]", 1}: false, {strings.Repeat("h", 513), 1}: false,
	} {
		if e.Valid() != want {
			t.Errorf("%+v: %v", e, e.Valid())
		}
	}
}

func TestContractFollowsTheLabels(t *testing.T) {
	for labels, want := range map[string]Contract{
		"":                                      Beta1,
		"cluster.x-k8s.io/v1beta1=v1beta2":      Beta1,
		"cluster.x-k8s.io/v1beta2=v1beta2":      Beta2,
		"cluster.x-k8s.io/v1beta2=v1beta1_v1b2": Beta1,
		"cluster.x-k8s.io/v1beta2=v1_v1beta2":   Beta2,
	} {
		key, value, _ := strings.Cut(labels, "=")
		if got := ContractOf(map[string]string{key: value}, "v1beta2"); got != want {
			t.Errorf("%q: %s", labels, got)
		}
	}
}

func TestMergeKeepsForeignConditionsAndTimes(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	have := []Condition{
		{Type: "Other", Status: False, Changed: "2020-01-01T00:00:00Z"}, {Type: "Ready", Status: False, Reason: "Old", Changed: "2021-01-01T00:00:00Z"},
		{Type: "VpcReady", Status: False, Changed: "2022-01-01T00:00:00Z"}, {Type: "Gone", Status: True},
	}
	want := []Condition{{Type: "Ready", Status: False, Reason: "New"}, {Type: "VpcReady", Status: True}}
	got := Merge(have, want, func(s string) bool { return s != "Other" }, now)
	same := []Condition{
		{Type: "Other", Status: False, Changed: "2020-01-01T00:00:00Z"}, {Type: "Ready", Status: False, Reason: "New", Changed: "2021-01-01T00:00:00Z"},
		{Type: "VpcReady", Status: True, Changed: "2026-11-23T12:00:00Z"},
	}
	if !slices.Equal(got, same) || !Same(got, []Condition{same[2], same[0], same[1]}) || Same(got, have) || Same(got, same[:2]) {
		t.Errorf("%+v", got)
	}
	if again := Merge(got, want, func(s string) bool { return s != "Other" }, now.Add(time.Hour)); !Same(again, got) {
		t.Errorf("a second time: %+v", again)
	}
}

func TestConditionsHaveTheFormOfTheContract(t *testing.T) {
	c := Condition{Type: "Ready", Status: False, Severity: Error, Reason: "Failed", Message: strings.Repeat("é", longestMessage)}
	if b := c.Form(Beta1, 3); b.Severity != Error || b.Observed != 0 || len(b.Message) > longestMessage+4 || !strings.HasSuffix(b.Message, "é …") {
		t.Errorf("v1beta1: %+v", b)
	}
	if b := c.Form(Beta2, 3); b.Severity != "" || b.Observed != 3 {
		t.Errorf("v1beta2: %+v", b)
	}
	c.Status = True
	if b := c.Form(Beta1, 3); b.Severity != "" {
		t.Errorf("v1beta1: %+v", b)
	}
}

func FuzzCluster(f *testing.F) {
	f.Add([]byte(`{"metadata":{"name":"a"},"spec":{"paused":"yes"},"status":{"conditions":[{}]}}`))
	f.Add([]byte(`{"metadata":{"ownerReferences":[{"kind":"Cluster"}]},"spec":null}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var c Cluster
		if json.Unmarshal(text, &c) == nil && c.Unreadable != "" && strings.HasPrefix(c.Unreadable, "spec") && !c.Paused() {
			t.Errorf("%s: a Cluster that cannot be read is not paused", text)
		}
	})
}

// TestMessagesOfConditionsFitTheContract: in v1beta1 an empty message is refused, and in v1beta2 a
// missing one is. Conditions of other programs stay as they are.
func TestMessagesOfConditionsFitTheContract(t *testing.T) {
	c := Condition{Type: "Ready", Status: True, Reason: "Ready", Changed: "2026-01-02T03:04:05Z"}
	for _, to := range []Contract{Beta1, Beta2, Beta1} {
		c = c.Form(to, 3)
		text, err := json.Marshal(c)
		if has := strings.Contains(string(text), `"message":""`); err != nil || has != (to == Beta2) {
			t.Errorf("%s: %s, %v", to, text, err)
		}
		var again Condition
		if err := json.Unmarshal(text, &again); err != nil || again != c {
			t.Errorf("%s: %+v became %+v, %v", to, c, again, err)
		}
	}
	c.Message = "why"
	if text, err := json.Marshal(c.Form(Beta1, 3)); err != nil || strings.Count(string(text), `"message":"why"`) != 1 {
		t.Errorf("%s, %v", text, err)
	}
	for _, text := range []string{
		`{"type":"A","status":"True","lastTransitionTime":"2026-01-02T03:04:05Z"}`,
		`{"type":"A","status":"True","lastTransitionTime":"2026-01-02T03:04:05Z","reason":"B","message":""}`,
		`{"type":"A","status":"False","severity":"Info","lastTransitionTime":"2026-01-02T03:04:05Z","reason":"B","message":"c"}`,
	} {
		var other Condition
		if err := json.Unmarshal([]byte(text), &other); err != nil {
			t.Fatal(err)
		}
		if again, err := json.Marshal(other); err != nil || string(again) != text {
			t.Errorf("%s became %s, %v", text, again, err)
		}
	}
}
