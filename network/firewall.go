package network

import (
	"context"
	"net/netip"
	"slices"

	"github.com/tulle-net/tulle/backend"
	"github.com/tulle-net/tulle/pkg/firewall"
	"github.com/tulle-net/tulle/subnet"
)

// Firewall keeps rules in the host's firewall, and restores them after foreign
// changes.
type Firewall interface {
	Want(r firewall.Rules)
	Status() firewall.Status
	// Dropped returns how many packets the rules that confine have dropped.
	Dropped(ctx context.Context) (packets uint64, known bool)
	Run(ctx context.Context)
}

// filter passes the rules for config and lease to the firewall.
func (a *Agent) filter() {
	r := a.Rules
	r.Exempt = slices.Concat(r.Exempt, a.exempted)
	r.Networks, r.Own = a.config.Networks(), a.own.Subnets
	r.NFTables = a.config.EnableNFTables
	if c, ok := a.backend.(backend.Confiner); ok {
		r.Confined = c.Confined()
	}
	a.Firewall.Want(r)
}

// setExempted sets further networks that see the containers' own addresses.
func (a *Agent) setExempted(all []netip.Prefix) {
	a.call(a.ctx, func() {
		a.exempted = all
		if a.own != (subnet.Lease{}) {
			a.filter()
		}
	})
}
