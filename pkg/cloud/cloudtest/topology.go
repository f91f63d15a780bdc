package cloudtest

import (
	"context"
	"slices"

	"github.com/tulle-net/tulle/pkg/cloud"
)

// PlacedMachine is the type of the instances that have a place in the Fleet's network.
const PlacedMachine = "fake.cluster"

// Layered reports whether instances of a type have a place.
func (f *Fleet) Layered(kind string) bool { return kind == PlacedMachine }

// NetworkNodes returns the network nodes above instances: one of the zone and one of the
// instance. An instance of another type, or one that does not run, has none.
func (f *Fleet) NetworkNodes(ctx context.Context, ids []string) (found map[string][]string, err error) {
	c := Call{"NetworkNodes", slices.Clone(ids)}
	f.Do(func() { f.calls = append(f.calls, c) })
	if err := pass(ctx, f.Latency); err != nil {
		return nil, err
	}
	f.Do(func() {
		if f.Revoked {
			err = &cloud.Error{Kind: cloud.Denied, Action: c.Action, Text: "the identity may not read the network; allow it"}
			return
		}
		answered := c.Keys
		if f.Fault != nil {
			answered, err = f.Fault(c)
		}
		places := make(map[string][]string)
		for _, i := range f.instances {
			if i.Type == PlacedMachine && i.State == cloud.Running {
				places[i.ID] = []string{"nn-" + i.Zone, "nn-" + i.ID}
			}
		}
		found = make(map[string][]string, len(answered))
		for _, id := range answered {
			found[id] = places[id]
		}
	})
	return found, err
}
