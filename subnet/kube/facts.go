package kube

import (
	"context"
	"net/netip"

	"k8s.io/klog/v2"

	"github.com/tulle-net/tulle/pkg/kube"
	"github.com/tulle-net/tulle/subnet"
)

// Facts are what the Node's status and annotations say of this host.
type Facts struct {
	// Internal and External are the Node's first address of each kind and family.
	Internal, External subnet.Pair[netip.Addr]
	// Overwrite is published instead of the host's address.
	Overwrite subnet.Pair[netip.Addr]
	// Public is published, and selects the uplink if a link of the host has it.
	Public subnet.Pair[netip.Addr]
}

func factsOf(v *kube.Node, all *values) (facts Facts, err error) {
	for _, a := range v.Addresses {
		to := &facts.Internal
		switch string(a.Kind) {
		case "InternalIP":
		case "ExternalIP":
			to = &facts.External
		default:
			continue
		}
		ip, err := netip.ParseAddr(string(a.Address))
		if err != nil || ip.Is4In6() || ip.Zone() != "" || to[subnet.FamilyOf(ip)].IsValid() {
			continue
		}
		to[subnet.FamilyOf(ip)] = ip
	}
	facts.Public, err = all.addresses(nodeFields)
	var wrong error
	if facts.Overwrite, wrong = all.addresses(overwriteFields); wrong != nil {
		err = wrong
	}
	return facts, err
}

const finding = "finding this host's Node"

// Facts waits until the facts differ from known, and returns them. With nil it waits
// for the first.
func (s *Store) Facts(ctx context.Context, known *Facts) (Facts, error) {
	s.begin()
	logged := ""
	for {
		e, there, changed := s.book.ownNode()
		switch {
		case known != nil: // Acquire and Hold report a missing Node
		case e != nil:
			s.trouble.Over(finding)
		case there:
			s.trouble.Failed(finding, s.noNode())
		}
		if e != nil {
			if err := e.own.ignored; err != nil && err.Error() != logged {
				logged = err.Error()
				klog.ErrorS(err, "Ignoring an invalid annotation of this Node", "node", e.name)
			}
			if known == nil || e.own.facts != *known {
				return e.own.facts, nil
			}
		}
		if err := wait(ctx, changed); err != nil {
			return Facts{}, err
		}
	}
}
