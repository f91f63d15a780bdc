package cloudnode

import (
	"maps"
	"testing"

	"github.com/tulle-net/tulle/pkg/cloud"
)

// described returns an instance with all facts.
func described() *cloud.Instance {
	return &cloud.Instance{
		ID: "i-1", ProviderID: "fake:///z/i-1", State: cloud.Running, Type: "m.large", Zone: "r-1a", ZoneID: "z1", Region: "r-1",
		Addresses: list("InternalIP=10.0.0.1 Hostname=a"),
	}
}

func all() map[string]string {
	return map[string]string{oldType: "m.large", stableType: "m.large", oldZone: "r-1a", stableZone: "r-1a", oldRegion: "r-1", stableRegion: "r-1"}
}

// with returns labels with some changed; "" removes one.
func with(labels map[string]string, changes ...string) map[string]string {
	labels = maps.Clone(labels)
	for i := 0; i < len(changes); i += 2 {
		if labels[changes[i]] = changes[i+1]; changes[i+1] == "" {
			delete(labels, changes[i])
		}
	}
	return labels
}

func TestInitialLabelsAreTheClouds(t *testing.T) {
	for name, c := range map[string]struct {
		has, want map[string]string
		instance  func(*cloud.Instance)
	}{
		"none":                     {nil, with(all(), zoneLabel, "z1"), nil},
		"others' values":           {with(all(), oldZone, "x", stableType, "y"), map[string]string{oldZone: "r-1a", stableType: "m.large", zoneLabel: "z1"}, nil},
		"all":                      {with(all(), zoneLabel, "z1"), nil, nil},
		"the cloud's own is kept":  {with(all(), zoneLabel, "mine"), nil, nil},
		"what the cloud has not":   {with(all(), oldZone, "x", zoneLabel, "mine"), nil, func(i *cloud.Instance) { i.Zone, i.ZoneID = "", "" }},
		"without a type or region": {nil, map[string]string{oldZone: "r-1a", stableZone: "r-1a"}, func(i *cloud.Instance) { i.Type, i.Region, i.ZoneID = "", "", "" }},
	} {
		i := described()
		if c.instance != nil {
			c.instance(i)
		}
		got, err := initial(&node{labels: c.has, tainted: true}, i, zoneLabel)
		if err != nil || !maps.Equal(got.labels, c.want) || !got.untaint || got.providerID != i.ProviderID {
			t.Errorf("%s: %v, %v, want %v", name, got, err, c.want)
		}
	}
	if got, err := initial(&node{id: "fake:///other"}, described(), ""); err != nil || got.providerID != "" {
		t.Errorf("a providerID is replaced: %v, %v", got, err)
	}
}

// TestLaterLabels: in an initialised Node, the stable labels follow the old ones, as in a cloud
// controller manager, and the type follows the cloud. All other labels stay.
func TestLaterLabels(t *testing.T) {
	for name, c := range map[string]struct {
		has, want map[string]string
		lookedUp  bool
	}{
		"all":                             {all(), nil, true},
		"none":                            {nil, nil, true},
		"the stable ones alone":           {with(all(), oldType, "", oldZone, "", oldRegion, ""), nil, true},
		"a stable one is missing":         {with(all(), stableZone, ""), map[string]string{stableZone: "r-1a"}, false},
		"a stable one differs":            {with(all(), stableRegion, "x"), map[string]string{stableRegion: "r-1"}, false},
		"another zone on purpose":         {with(all(), oldZone, "x", stableZone, "x"), nil, true},
		"another type":                    {with(all(), oldType, "s", stableType, "s"), map[string]string{oldType: "m.large", stableType: "m.large"}, true},
		"another type, not looked up":     {with(all(), oldType, "s", stableType, "s"), nil, false},
		"another type, stable label only": {with(all(), oldType, "", stableType, "s"), map[string]string{stableType: "m.large"}, true},
	} {
		var i *cloud.Instance
		if c.lookedUp {
			i = described()
		}
		got, err := later(&node{labels: c.has, addresses: list("InternalIP=10.0.0.1 Hostname=a")}, i)
		if err != nil || !maps.Equal(got.labels, c.want) || got.untaint || got.providerID != "" || got.addresses != nil {
			t.Errorf("%s: %v, %v, want %v", name, got, err, c.want)
		}
	}
}

func TestChangeDescribesItself(t *testing.T) {
	c := change{providerID: "fake:///z/i-1", labels: map[string]string{stableZone: "r-1a", oldZone: "r-1a", stableType: "m.large"}, untaint: true, addresses: list("InternalIP=10.0.0.1 Hostname=a")}
	const want = "set providerID fake:///z/i-1; set addresses InternalIP=10.0.0.1,Hostname=a; " +
		"set labels node.kubernetes.io/instance-type=m.large,zone=r-1a; remove the taint node.cloudprovider.kubernetes.io/uninitialized"
	if got := c.String(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if !(change{labels: map[string]string{}}).isEmpty() || c.isEmpty() {
		t.Error("what is empty")
	}
}
