package kube

import (
	"fmt"
	"maps"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tulle-net/tulle/pkg/kube/apitest"
)

// sameNode compares what was decoded of a Node with what Kubernetes' own types
// decode.
func sameNode(n *Node, want *corev1.Node) error {
	var cidrs []string
	for _, c := range n.PodCIDRs() {
		cidrs = append(cidrs, string(c))
	}
	wantCIDRs := want.Spec.PodCIDRs
	if len(wantCIDRs) == 0 && want.Spec.PodCIDR != "" {
		wantCIDRs = []string{want.Spec.PodCIDR}
	}
	notes := make(map[string]string)
	for _, a := range n.Annotations {
		notes[string(a.Key)] = string(a.Value)
	}
	switch {
	case string(n.Name) != want.Name || string(n.UID) != string(want.UID) || n.Revision != Revision(want.ResourceVersion):
		return fmt.Errorf("%s %s %d, want %s %s %s", n.Name, n.UID, n.Revision, want.Name, want.UID, want.ResourceVersion)
	case fmt.Sprint(cidrs) != fmt.Sprint(wantCIDRs):
		return fmt.Errorf("podCIDRs %v, want %v", cidrs, wantCIDRs)
	case len(notes) != len(want.Annotations) || len(notes) > 0 && fmt.Sprint(notes) != fmt.Sprint(want.Annotations):
		return fmt.Errorf("annotations %v, want %v", notes, want.Annotations)
	case string(n.ResourceVersion) != want.ResourceVersion || n.Deleting != (want.DeletionTimestamp != nil) || string(n.ProviderID) != want.Spec.ProviderID:
		return fmt.Errorf("%q deleting %t %q, want %+v %q", n.ResourceVersion, n.Deleting, n.ProviderID, want.ObjectMeta, want.Spec.ProviderID)
	case len(n.Taints()) != len(want.Spec.Taints):
		return fmt.Errorf("%d taints, want %v", len(n.Taints()), want.Spec.Taints)
	case len(n.Addresses) != len(want.Status.Addresses):
		return fmt.Errorf("%d addresses, want %d", len(n.Addresses), len(want.Status.Addresses))
	}
	labels := make(map[string]string)
	for _, l := range n.Labels() {
		labels[string(l.Key)] = string(l.Value)
	}
	if !maps.Equal(labels, want.Labels) {
		return fmt.Errorf("labels %v, want %v", labels, want.Labels)
	}
	for i, t := range want.Spec.Taints {
		if got := n.Taints()[i]; string(got.Key) != t.Key || string(got.Value) != t.Value || string(got.Effect) != string(t.Effect) {
			return fmt.Errorf("taint %s=%s:%s, want %v", got.Key, got.Value, got.Effect, t)
		}
	}
	for i, a := range want.Status.Addresses {
		if string(n.Addresses[i].Kind) != string(a.Type) || string(n.Addresses[i].Address) != a.Address {
			return fmt.Errorf("address %s %s, want %v", n.Addresses[i].Kind, n.Addresses[i].Address, a)
		}
	}
	if string(n.Boot) != want.Status.NodeInfo.BootID {
		return fmt.Errorf("boot %s, want %s", n.Boot, want.Status.NodeInfo.BootID)
	}
	if string(n.Machine) != want.Status.NodeInfo.SystemUUID {
		return fmt.Errorf("machine %s, want %s", n.Machine, want.Status.NodeInfo.SystemUUID)
	}
	for _, c := range want.Status.Conditions {
		if got := map[corev1.NodeConditionType]NodeCondition{Ready: n.Ready, NetworkUnavailable: n.Unavailable}[c.Type]; len(got.Status) > 0 && got.Since != c.LastTransitionTime.Unix() && !c.LastTransitionTime.IsZero() {
			return fmt.Errorf("condition %s since %d, want %s", c.Type, got.Since, c.LastTransitionTime)
		}
	}
	return nil
}

func TestWholeNode(t *testing.T) {
	unavailable := apitest.SmallNode(2)
	unavailable.Status.Conditions = append(unavailable.Status.Conditions, corev1.NodeCondition{
		Type: NetworkUnavailable, Status: "True", Reason: "NoLease", Message: "no subnet",
	})
	deleting := apitest.SmallNode(3)
	deleting.Status.NodeInfo.BootID = "6d7a4a4e-3f04-4d6c-9a40-2b0e4a5c1c11"
	deleting.Status.NodeInfo.SystemUUID = "ec2f7a4a-3f04-4d6c-9a40-2b0e4a5c1c11"
	deleting.DeletionTimestamp = &metav1.Time{Time: time.Unix(1_700_000_001, 0)}
	var n Node // one for all: nothing of one may remain in the next
	for _, want := range []*corev1.Node{apitest.LargeNode(1), unavailable, deleting, {}, {Spec: corev1.NodeSpec{PodCIDR: "10.5.1.0/24"}}} {
		if err := n.decode(apitest.Encoded(t, want), false); err != nil {
			t.Fatal(err)
		}
		if err := sameNode(&n, want); err != nil {
			t.Error(err)
		}
		var condition string
		if want == unavailable {
			condition = "True NoLease no subnet"
		}
		if got := fmt.Sprintf("%s %s %s", n.Unavailable.Status, n.Unavailable.Reason, n.Unavailable.Message); got != condition && condition+got != "  " {
			t.Errorf("%s: %q, want %q", want.Name, got, condition)
		}
	}
	if err := n.decode(apitest.Encoded(t, apitest.LargeNode(1)), false); err != nil || n.Created != 1_700_000_000 || n.MetadataOnly {
		t.Errorf("%+v, %v", n, err)
	}
	if r := n.Ready; string(r.Status) != "False" || string(r.Reason) != "KubeletHasSufficient" || len(n.Unavailable.Status) > 0 {
		t.Errorf("ready: %s, %s", r.Status, r.Reason)
	}
}

// TestNodeMetadata decodes metadata that Kubernetes' own types encoded.
func TestNodeMetadata(t *testing.T) {
	want := apitest.LargeNode(1)
	var n Node
	if err := NodeMetadata.decode(apitest.Encoded(t, &metav1.PartialObjectMetadata{ObjectMeta: want.ObjectMeta}), &n); err != nil {
		t.Fatal(err)
	}
	if err := sameNode(&n, &corev1.Node{ObjectMeta: want.ObjectMeta}); err != nil || !n.MetadataOnly {
		t.Errorf("metadata-only %t, %v", n.MetadataOnly, err)
	}
}

func FuzzNode(f *testing.F) {
	f.Add(apitest.Encoded(f, apitest.SmallNode(1)))
	f.Add(apitest.Encoded(f, &corev1.Node{}))
	f.Add([]byte{0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, text []byte) {
		var n Node
		_ = n.decode(text, false)
		_, _ = protobufWire{}.status(text)
		_, _, _ = protobufWire{}.open(text)
		var want corev1.Node
		if want.Unmarshal(text) != nil {
			return // Kubernetes' types may refuse what we skip
		}
		again := apitest.Encoded(t, &want) // as an API server would encode it
		if err := n.decode(again, false); err != nil {
			t.Fatalf("not read: %v", err)
		}
		if err := sameNode(&n, &want); err != nil {
			t.Error(err)
		}
		if revision, err := (protobufWire{}).revision(again); err != nil || string(revision) != want.ResourceVersion {
			t.Errorf("at %s, want %s: %v", revision, want.ResourceVersion, err)
		}
	})
}
