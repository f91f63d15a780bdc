package kube

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/kube/apitest"
)

// document is any object as JSON.
type document = map[string]any

// refusedWith returns an error unless err is a refusal with a code, a reason and a
// part of a message.
func refusedWith(err error, code int, reason, part string) error {
	got, ok := errors.AsType[*Error](err)
	if !ok || got.Code != code || got.Reason != reason || !strings.Contains(got.Message, part) {
		return fmt.Errorf("%w, want %d %s: %s", err, code, reason, part)
	}
	return nil
}

// rules are what controllers rely on of an API server. TestRules tries them with the
// server of apitest, TestServerRules with a real one.
var rules = map[string]func(t *testing.T, c *Client){
	"writes of Nodes":   nodeRules,
	"podCIDRs":          podCIDRRules,
	"strategic patches": strategicRules,
	"taints":            taintRules,
	"deletion of Nodes": deletionRules,
	"Leases":            leaseRules,
	"Events":            eventRules,
}

func TestRules(t *testing.T) {
	for name, try := range rules {
		t.Run(name, func(t *testing.T) {
			f := apitest.New(t)
			f.Gives = nil
			try(t, newClient(t, Options{Server: f.URL}))
		})
	}
}

// trial makes requests, and fails the test unless they end as they must.
type trial struct {
	*testing.T
	c *Client
}

// node creates a Node, and returns its path and version.
func (t trial) node(name string, metadata document) (path string, v Version) {
	t.Helper()
	n := document{"metadata": document{"name": name}}
	maps.Copy(n["metadata"].(document), metadata)
	if err := Create(t.Context(), t.c, Nodes, JSON[document]("Node"), &n); err != nil {
		t.Fatal(err)
	}
	return Path(Nodes, name), t.read(Path(Nodes, name)).Version()
}

// read returns a Node.
func (t trial) read(path string) *Node {
	t.Helper()
	n := new(Node)
	if err := Get(t.Context(), t.c, path, WholeNode, n); err != nil {
		t.Fatal(err)
	}
	return n
}

// merges applies a patch, and returns the Node's new version.
func (t trial) merges(path string, m Merge) Version {
	t.Helper()
	v, err := t.c.Merge(t.Context(), path, m)
	if err != nil {
		t.Fatal(err)
	}
	if now := t.read(Path(strings.TrimSuffix(path, "/status"))).Version(); v != now {
		t.Errorf("%s: merged to %v, reads %v", path, v, now)
	}
	return v
}

// refuses tries a patch that must be refused.
func (t trial) refuses(path string, m Merge, code int, reason, part string) {
	t.Helper()
	_, err := t.c.Merge(t.Context(), path, m)
	if err := refusedWith(err, code, reason, part); err != nil {
		t.Errorf("%+v: %v", m, err)
	}
}

func nodeRules(t *testing.T, c *Client) {
	try := trial{t, c}
	path, first := try.node("a", nil)
	twice := document{"metadata": document{"name": "a"}}
	if err := refusedWith(Create(t.Context(), c, Nodes, JSON[document]("Node"), &twice), http.StatusConflict, "AlreadyExists", `"a" already exists`); err != nil {
		t.Error(err)
	}
	noted := func(text any) document { return document{"annotations": document{note: text}} }
	second := try.merges(path, Merge{If: first, Metadata: noted("1"), Spec: document{"providerID": "x://1"}})
	if second.UID != first.UID || second.ResourceVersion == first.ResourceVersion {
		t.Errorf("from %v to %v", first, second)
	}
	if again := try.merges(path, Merge{If: second, Metadata: noted("1")}); again != second {
		t.Errorf("a patch without a change: from %v to %v", second, again)
	}
	other := Version{"another", second.ResourceVersion}
	try.refuses(path, Merge{If: first, Metadata: noted("2")}, http.StatusConflict, "Conflict", "the object has been modified")
	try.refuses(path, Merge{If: Version{UID: "another"}, Metadata: noted("2")}, http.StatusUnprocessableEntity, "Invalid", "metadata.uid")
	try.refuses(path, Merge{If: other, Metadata: noted("2")}, http.StatusUnprocessableEntity, "Invalid", "metadata.uid")
	try.refuses(path, Merge{If: Version{"another", first.ResourceVersion}, Metadata: noted("2")}, http.StatusConflict, "Conflict", "modified")
	try.refuses(path, Merge{If: second, Spec: document{"providerID": "x://2"}}, http.StatusUnprocessableEntity, "Invalid", "spec.providerID")
	try.refuses(Path(Nodes, "none"), Merge{Metadata: noted("2")}, http.StatusNotFound, "NotFound", `"none" not found`)
	for part, m := range map[string]Merge{
		"":       {Status: document{"addresses": []document{{"type": "Hostname", "address": "a"}}}},
		"status": {Spec: document{"podCIDR": "10.5.1.0/24", "podCIDRs": []string{"10.5.1.0/24"}}},
	} {
		at := path
		if part != "" {
			at = Path(path, part)
		}
		if v := try.merges(at, m); v != second {
			t.Errorf("a patch of what %s does not have: from %v to %v", at, second, v)
		}
	}
	third := try.merges(Path(path, "status"), Merge{If: second, Metadata: noted("2"), Status: document{"addresses": []document{{"type": "Hostname", "address": "a"}}}})
	if n := try.read(path); third == second || len(n.Addresses) != 1 || string(n.ProviderID) != "x://1" {
		t.Errorf("%+v", n)
	}
	try.merges(path, Merge{If: third, Metadata: noted(nil), Spec: document{"taints": []document{{"key": "a", "effect": "NoSchedule"}}}})
	n := try.read(path)
	if _, text := noteOf(n); text != "" || !hasTaint(n, "a") {
		t.Errorf("%+v", n)
	}
}

func hasTaint(n *Node, key string) bool {
	for _, taint := range n.Taints() {
		if string(taint.Key) == key && string(taint.Effect) == "NoSchedule" {
			return true
		}
	}
	return false
}

// given is the spec that gives podCIDRs.
func given(cidrs ...string) document { return document{"podCIDR": cidrs[0], "podCIDRs": cidrs} }

func podCIDRRules(t *testing.T, c *Client) {
	try := trial{t, c}
	path, v := try.node("pods-a", nil)
	for _, bad := range [][]string{{"rubbish"}, {"10.5.1.0/24", "10.5.2.0/24"}, {"10.5.1.0/24", "fd00::/64", "fd01::/64"}, {"10.5.1.0/24", "10.5.1.0/33"}} {
		try.refuses(path, Merge{If: v, Spec: given(bad...)}, http.StatusUnprocessableEntity, "Invalid", "spec.podCIDRs")
	}
	v = try.merges(path, Merge{If: v, Spec: given("10.5.1.0/24", "fd00:5:0:1::/64")})
	for _, other := range [][]string{{"10.5.2.0/24", "fd00:5:0:1::/64"}, {"10.5.1.0/24"}, {"fd00:5:0:1::/64", "10.5.1.0/24"}, {"10.5.2.0/24"}} {
		try.refuses(path, Merge{If: v, Spec: given(other...)}, http.StatusUnprocessableEntity, "Invalid", "spec.podCIDRs")
	}
	try.refuses(path, Merge{If: v, Spec: document{"podCIDR": nil, "podCIDRs": nil}}, http.StatusUnprocessableEntity, "Invalid", "spec.podCIDRs")
	// The server believes podCIDR where it is not the first of podCIDRs.
	try.refuses(path, Merge{If: v, Spec: document{"podCIDRs": []string{"10.5.2.0/24", "fd00:5:0:1::/64"}}}, http.StatusUnprocessableEntity, "Invalid", "spec.podCIDRs")
	if n := try.read(path); fmt.Sprintf("%s", n.PodCIDRs()) != "[10.5.1.0/24 fd00:5:0:1::/64]" || n.Version() != v {
		t.Errorf("%s", n.PodCIDRs())
	}
	path, v = try.node("pods-b", nil)
	try.merges(path, Merge{If: v, Spec: document{"podCIDRs": []string{"10.5.2.0/24"}}})
	if n := try.read(path); fmt.Sprintf("%s %s", n.podCIDR, n.podCIDRs) != "10.5.2.0/24 [10.5.2.0/24]" {
		t.Errorf("%s %s", n.podCIDR, n.podCIDRs)
	}
	// A patch of podCIDRs alone is no change, and not refused, where podCIDR is another.
	v = try.read(path).Version()
	if now := try.merges(path, Merge{If: v, Spec: document{"podCIDRs": []string{"10.5.3.0/24"}}}); now != v {
		t.Errorf("from %v to %v", v, now)
	}
}

// strategicRules are those of the patches that give a Node podCIDRs. The server adds
// them to those that the Node has, which never makes valid ones.
func strategicRules(t *testing.T, c *Client) {
	try := trial{t, c}
	path, first := try.node("strategic", document{"annotations": document{"example.org/other": "kept"}})
	strategic := func(v Version, metadata map[string]any, spec any) Merge {
		return Merge{Kind: StrategicMergePatch, If: v, Metadata: metadata, Spec: spec}
	}
	try.refuses(path, strategic(first, nil, given("rubbish")), http.StatusUnprocessableEntity, "Invalid", "spec.podCIDRs")
	try.refuses(path, strategic(Version{UID: "another"}, nil, given("10.5.7.0/24")), http.StatusUnprocessableEntity, "Invalid", "metadata.uid")
	second := try.merges(path, strategic(first, document{"annotations": document{note: "1"}}, nil))
	try.refuses(path, strategic(first, nil, given("10.5.7.0/24")), http.StatusConflict, "Conflict", "the object has been modified")
	third := try.merges(path, strategic(second, nil, given("10.5.7.0/24", "fd00:5:0:7::/64")))
	for _, other := range [][]string{{"10.5.8.0/24"}, {"10.5.8.0/24", "fd00:5:0:8::/64"}} {
		try.refuses(path, strategic(third, nil, given(other...)), http.StatusUnprocessableEntity, "Invalid", "spec.podCIDRs")
	}
	n := try.read(path)
	if _, text := noteOf(n); text != "1" || len(n.Annotations) != 2 || n.Version() != third || fmt.Sprintf("%s", n.PodCIDRs()) != "[10.5.7.0/24 fd00:5:0:7::/64]" {
		t.Errorf("%s, %s, %+v", text, n.PodCIDRs(), n)
	}
	try.refuses(Path(Nodes, "none"), strategic(Version{}, nil, given("10.5.9.0/24")), http.StatusNotFound, "NotFound", `"none" not found`)
}

// taintRules are those of the patches that change the taints of a Node. They are one
// value in both kinds of patches, so a patch has all of them.
func taintRules(t *testing.T, c *Client) {
	try := trial{t, c}
	path, v := try.node("tainted", nil)
	const added = 1_700_000_000
	at := time.Unix(added, 0).UTC().Format(time.RFC3339)
	patch := func(kind PatchKind, taints ...document) {
		t.Helper()
		v = try.merges(path, Merge{Kind: kind, If: v, Metadata: document{"labels": document{"example.org/zone": "a"}}, Spec: document{"taints": taints}})
	}
	want := func(all ...string) {
		t.Helper()
		var got []string
		for _, taint := range try.read(path).Taints() {
			got = append(got, fmt.Sprintf("%s=%s:%s@%d", taint.Key, taint.Value, taint.Effect, taint.Added))
		}
		slices.Sort(got)
		if !slices.Equal(got, all) {
			t.Errorf("taints %q, want %q", got, all)
		}
	}
	a, b := document{"key": "a", "effect": "NoExecute", "timeAdded": at}, document{"key": "b", "value": "x", "effect": "NoSchedule"}
	patch(MergePatch, a, b)
	want(fmt.Sprintf("a=:NoExecute@%d", added), "b=x:NoSchedule@0")
	patch(StrategicMergePatch, b)
	want("b=x:NoSchedule@0")
	patch(StrategicMergePatch, a, b)
	want(fmt.Sprintf("a=:NoExecute@%d", added), "b=x:NoSchedule@0")
	patch(StrategicMergePatch)
	want()
}

func deletionRules(t *testing.T, c *Client) {
	try := trial{t, c}
	path, v := try.node("deleted", document{"finalizers": []string{"example.org/keep"}})
	for _, wrong := range []Version{{UID: "another"}, {ResourceVersion: "1"}} {
		if err := refusedWith(c.Delete(t.Context(), path, wrong), http.StatusConflict, "Conflict", "recondition"); err != nil {
			t.Error(err)
		}
	}
	if err := c.Delete(t.Context(), path, v); err != nil {
		t.Fatal(err)
	}
	n := try.read(path)
	if !n.Deleting {
		t.Errorf("%+v", n)
	}
	if n = try.read(path); !n.Deleting || n.Version() == v {
		t.Errorf("%+v", n)
	}
	v = try.merges(path, Merge{If: n.Version(), Spec: given("10.5.1.0/24")})
	if _, err := c.Merge(t.Context(), path, Merge{If: v, Metadata: document{"finalizers": nil}}); err != nil {
		t.Error(err)
	}
	err := Get(t.Context(), c, path, WholeNode, n)
	if err := refusedWith(err, http.StatusNotFound, "NotFound", ""); err != nil {
		t.Error(err)
	}
	if err := refusedWith(c.Delete(t.Context(), path, Version{}), http.StatusNotFound, "NotFound", ""); err != nil {
		t.Error(err)
	}
	path, next := try.node("deleted", nil)
	if next.UID == v.UID {
		t.Errorf("re-created with the uid of the deleted one")
	}
	try.refuses(path, Merge{If: v, Spec: given("10.5.1.0/24")}, http.StatusConflict, "Conflict", "")
	if err := c.Delete(t.Context(), path, next); err != nil {
		t.Error(err)
	}
}

func leaseRules(t *testing.T, c *Client) {
	all := Leases("default")
	path := Path(all, "a")
	var l Lease
	l.Metadata.Name = "a"
	l.Spec = LeaseSpec{HolderIdentity: "x", LeaseDurationSeconds: 15, AcquireTime: "2026-01-02T03:04:05.000006Z", RenewTime: "2026-01-02T03:04:05.000006Z"}
	if err := Update(t.Context(), c, path, LeaseFormat, &l); err != nil || l.Metadata.UID == "" { // only Leases are created so
		t.Errorf("an update of none: %+v, %v", l, err)
	}
	twice := l
	if err := refusedWith(Create(t.Context(), c, all, LeaseFormat, &twice), http.StatusInternalServerError, "", "resourceVersion should not be set"); err != nil {
		t.Error(err)
	}
	twice = Lease{Metadata: Meta{Name: "a"}, Spec: l.Spec}
	if err := refusedWith(Create(t.Context(), c, all, LeaseFormat, &twice), http.StatusConflict, "AlreadyExists", ""); err != nil {
		t.Error(err)
	}
	before := l
	l.Spec.RenewTime = "2026-01-02T03:04:07.000006Z"
	if err := Update(t.Context(), c, path, LeaseFormat, &l); err != nil {
		t.Fatal(err)
	}
	if l.Metadata.UID != before.Metadata.UID || l.Metadata.ResourceVersion == before.Metadata.ResourceVersion || l.Spec.RenewTime != "2026-01-02T03:04:07.000006Z" || l.Spec.AcquireTime != before.Spec.AcquireTime {
		t.Errorf("%+v", l)
	}
	now := l
	if err := Update(t.Context(), c, path, LeaseFormat, &now); err != nil || now.Metadata.ResourceVersion != l.Metadata.ResourceVersion {
		t.Errorf("an update without a change: %v, %+v", err, now.Metadata)
	}
	for name, wrong := range map[string]struct {
		change func(l *Lease)
		code   int
		reason string
	}{
		"of an old version":  {func(l *Lease) { l.Metadata.Version = before.Metadata.Version }, http.StatusConflict, "Conflict"},
		"of another":         {func(l *Lease) { l.Metadata.UID = "another" }, http.StatusConflict, "Conflict"},
		"of any version":     {func(l *Lease) { l.Metadata.Version, l.metadata = Version{}, nil }, http.StatusUnprocessableEntity, "Invalid"},
		"with bad duration":  {func(l *Lease) { l.Spec.LeaseDurationSeconds = -1 }, http.StatusUnprocessableEntity, "Invalid"},
		"with a bad number":  {func(l *Lease) { l.Spec.LeaseTransitions = -1 }, http.StatusUnprocessableEntity, "Invalid"},
		"with no time in it": {func(l *Lease) { l.Spec.RenewTime = "soon" }, http.StatusBadRequest, "BadRequest"},
	} {
		try := l
		wrong.change(&try)
		if err := refusedWith(Update(t.Context(), c, path, LeaseFormat, &try), wrong.code, wrong.reason, ""); err != nil {
			t.Errorf("an update %s: %v", name, err)
		}
	}
	released := l
	released.Spec.HolderIdentity = ""
	if err := Update(t.Context(), c, path, LeaseFormat, &released); err != nil || released.Spec.HolderIdentity != "" {
		t.Errorf("%+v, %v", released.Spec, err)
	}
	if err := c.Delete(t.Context(), path, released.Metadata.Version); err != nil {
		t.Error(err)
	}
	released.Spec.HolderIdentity = "y"
	if err := refusedWith(Update(t.Context(), c, path, LeaseFormat, &released), http.StatusConflict, "Conflict", "UID"); err != nil {
		t.Errorf("an update of a deleted one: %v", err)
	}
}

func eventRules(t *testing.T, c *Client) {
	const at = "2026-01-02T03:04:05Z"
	event := func() *Event {
		e := &Event{
			InvolvedObject: Reference{APIVersion: "v1", Kind: "Node", Name: "a", UID: "uid"}, Reason: "Why", Message: "because", Type: Warning,
			Count: 1, FirstTimestamp: at, LastTimestamp: at, Source: EventSource{Component: "test"},
		}
		e.Metadata.GenerateName = "a."
		return e
	}
	e := event()
	if err := Create(t.Context(), c, Events(""), EventFormat, e); err != nil || !strings.HasPrefix(e.Metadata.Name, "a.") || e.Metadata.UID == "" || e.Message != "because" {
		t.Errorf("%+v: %v", e, err)
	}
	if err := refusedWith(Create(t.Context(), c, Events("kube-public"), EventFormat, event()), http.StatusUnprocessableEntity, "Invalid", "involvedObject.namespace"); err != nil {
		t.Error(err)
	}
}
