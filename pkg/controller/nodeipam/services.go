package nodeipam

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/tulle-net/tulle/pkg/controller"
	"github.com/tulle-net/tulle/pkg/kube"
)

// FollowServices adds a feed of the ServiceCIDRs to an Engine. It calls changed in
// the loop, with the ranges of all of them, whenever these have changed.
func FollowServices(e *controller.Engine, client *kube.Client, changed func(ranges []netip.Prefix)) {
	s := &services{of: make(map[string][]netip.Prefix), changed: changed}
	controller.Follow(e, controller.Feed[kube.ServiceCIDR, []netip.Prefix]{
		What: "servicecidrs", Client: client, Path: kube.ServiceCIDRs, Format: kube.ServiceCIDRFormat, Optional: true,
		Keep: keepService, List: s.list, Set: s.set, Delete: s.delete, Flush: s.flush,
	})
}

// services are the ranges of each ServiceCIDR.
type services struct {
	of      map[string][]netip.Prefix
	ranges  []netip.Prefix // of all, as changed was called with them last
	changed func(ranges []netip.Prefix)
}

// keepService returns the ranges of a ServiceCIDR.
func keepService(s *kube.ServiceCIDR) (name string, ranges []netip.Prefix) {
	for _, text := range s.Spec.CIDRs {
		if p, err := netip.ParsePrefix(text); err == nil {
			ranges = append(ranges, p.Masked())
		}
	}
	return s.Metadata.Name, ranges
}

// list replaces all ServiceCIDRs. A server without the resource has a nil list.
func (s *services) list(all map[string][]netip.Prefix) {
	clear(s.of)
	maps.Copy(s.of, all)
}

func (s *services) set(name string, ranges []netip.Prefix) { s.of[name] = ranges }

func (s *services) delete(name string) { delete(s.of, name) }

func (s *services) flush() {
	var ranges []netip.Prefix
	for _, name := range slices.Sorted(maps.Keys(s.of)) {
		ranges = append(ranges, s.of[name]...)
	}
	if !slices.Equal(ranges, s.ranges) {
		s.ranges = ranges
		s.changed(ranges)
	}
}
