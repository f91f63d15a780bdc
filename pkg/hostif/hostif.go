// Package hostif chooses the interface and address that face the other hosts, for
// each IP family, and follows their changes. The choice is a pure function of the
// settings and of the host's state.
package hostif

import (
	"context"
	"net/netip"

	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/subnet"
)

// Spec are the settings and the network's config. Among the settings that name an
// interface, the first that leads to a usable address counts, in the order Ifaces,
// IfaceRegexes, CanReach, NodeIP. Without any it is the interface that has PublicIP,
// else that of the default route.
type Spec struct {
	// Ifaces are names or addresses, tried in order. An address names its interface for
	// the other family too.
	Ifaces []string
	// IfaceRegexes are tried in order, each first on the
	// addresses of all interfaces, then on their names.
	IfaceRegexes []string
	// CanReach is an address to which the chosen interface leads.
	CanReach netip.Addr
	// FromNodeIP chooses the interface that has NodeIP, by which Kubernetes knows the
	// host.
	FromNodeIP bool
	NodeIP     subnet.Pair[netip.Addr]
	// Published is the address that the other hosts send to, whatever the other settings
	// are. It does not choose an interface.
	Published subnet.Pair[netip.Addr]
	// PublicIP is the address that the other hosts send to, if it is not the interface's.
	PublicIP subnet.Pair[netip.Addr]
	// Networks are the overlay's own; their addresses face no other host. A family
	// without one is off.
	Networks subnet.Pair[netip.Prefix]
	// Bridges are the containers' bridges, by name, whose addresses Interfaces contains.
	// They face no other host either.
	Bridges []string
	// Last is the previous choice, for example an earlier run's. It stays while no other
	// one is better.
	Last  subnet.Pair[netip.Addr]
	Names Names
}

// Uplink faces the other hosts in one family.
type Uplink struct {
	Link    string
	MTU     int
	Address netip.Addr // the source address
	Public  netip.Addr // the address that others send to: the same, unless the host is behind NAT
	// TakesRouterAdvertisements reports that routers configure the link as long as the
	// host does not forward IPv6.
	TakesRouterAdvertisements bool
	Why                       string // the reason for the choice, for the log
}

// IsValid reports whether there is an uplink.
func (u Uplink) IsValid() bool { return u.Link != "" }

// same reports whether a and b differ at most in the reason.
func (u Uplink) same(v Uplink) bool {
	u.Why = v.Why
	return u == v
}

// Source is the kernel that knows the host's state. WatchHost reports changes of links,
// addresses and routes. It begins with an event of lost events, which means that it
// listens. It returns when no call is running.
type Source interface {
	Survey(ctx context.Context) (netstate.Survey, error)
	RouteTo(ctx context.Context, to netip.Addr) (netstate.Path, error)
	WatchHost(ctx context.Context, to func(netstate.Event)) error
}

// View is everything that a choice depends on beside the Spec.
type View struct {
	netstate.Survey
	Reach netstate.Path // how the kernel sends to Spec.CanReach
}

// Survey returns what a choice by spec depends on.
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
