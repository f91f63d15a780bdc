// Package hostif chooses which interface and address face the other hosts, each
// IP family by itself, and follows the changes of what it chose. The choice is
// a pure function of the flags and of what the host has.
package hostif

import (
	"context"
	"net/netip"

	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/subnet"
)

// Spec is what the flags and the network's config say. Of the flags that name
// an interface the first that leads to a usable address counts, in the order
// Ifaces, IfaceRegexes, CanReach, NodeIP. Without any it is the interface that has
// PublicIP, else that of the default route.
type Spec struct {
	// Ifaces are names or addresses, tried in order. Through an
	// address, its interface is named for the other family too.
	Ifaces []string
	// IfaceRegexes are tried in order, each first on the
	// addresses of all interfaces, then on their names.
	IfaceRegexes []string
	// CanReach is an address to which the chosen interface leads.
	CanReach netip.Addr
	// FromNodeIP says that the interface is the one that has NodeIP, by which
	// Kubernetes knows the host.
	FromNodeIP bool
	NodeIP     subnet.Pair[netip.Addr]
	// Published is what the other hosts send to whatever else is said here; it
	// leads to no interface.
	Published subnet.Pair[netip.Addr]
	// PublicIP is what the other hosts send to where that is not the address
	// of the interface.
	PublicIP subnet.Pair[netip.Addr]
	// Networks are the overlay's own; their addresses face no other host. A
	// family without one is off.
	Networks subnet.Pair[netip.Prefix]
	// Bridges are those of containers, by name, of whose addresses Host tells.
	// They face no other host either.
	Bridges []string
	// Last is what was chosen before, as by an earlier run: it stays while
	// nothing else is better.
	Last  subnet.Pair[netip.Addr]
	Names Names
}

// Uplink is what faces the other hosts in one family.
type Uplink struct {
	Link    string
	MTU     int
	Address netip.Addr // that the host sends from
	Public  netip.Addr // that the others send to: the same, unless the host is behind NAT
	// TakesRouterAdvertisements says that routers configure the link as long
	// as the host does not forward IPv6.
	TakesRouterAdvertisements bool
	Why                       string // it was chosen, for the log
}

// IsValid reports whether there is an uplink.
func (u Uplink) IsValid() bool { return u.Link != "" }

// same reports whether a and b differ in nothing but the reason.
func (u Uplink) same(v Uplink) bool {
	u.Why = v.Why
	return u == v
}

// Source is the kernel that tells what the host has. Watch begins with an event
// of lost events, which says that it listens, and returns with no call under way.
type Source interface {
	Survey(ctx context.Context) (netstate.Survey, error)
	RouteTo(ctx context.Context, to netip.Addr) (netstate.Path, error)
	Watch(ctx context.Context, to func(netstate.Event)) error
}

// View is all that a choice goes by beside the Spec.
type View struct {
	netstate.Survey
	Reach netstate.Path // how the kernel sends to Spec.CanReach
}

// Survey asks for what a choice by spec goes by.
func Survey(ctx context.Context, source Source, spec Spec) (View, error) {
	survey, err := source.Survey(ctx)
	if err != nil {
		return View{}, err
	}
	v := View{Survey: survey}
	if spec.CanReach.IsValid() {
		v.Reach, err = source.RouteTo(ctx, spec.CanReach)
	}
	return v, err
}
