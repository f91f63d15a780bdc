package daemon

import (
	"context"
	"net/netip"
	"slices"

	"github.com/tulle-net/tulle/pkg/budget"
	"github.com/tulle-net/tulle/pkg/cidrfile"
	"github.com/tulle-net/tulle/pkg/firewall"
	"github.com/tulle-net/tulle/pkg/firewall/host"
	"github.com/tulle-net/tulle/pkg/options"
)

// newFirewall returns the keeper of the rules in this host's firewall.
func newFirewall(o options.Filtering, healing *budget.Account, changed func()) *firewall.Keeper {
	kind := map[options.Filter]host.Kind{
		options.FilterAuto:     host.Auto,
		options.FilterNFTables: host.NFTables,
		options.FilterIPTables: host.IPTables,
		options.FilterNone:     host.None,
	}[o.Filter]
	return host.NewKeeper(host.Options{Kind: kind, Resync: o.Resync, Names: firewallNames}, healing, changed)
}

// unfiltered returns the setting because of which no rules are written, or "" if they
// are.
func unfiltered(o options.Filtering) string {
	if o.Filter != options.FilterNone {
		return ""
	}
	return options.Name("filter") + "=" + string(options.FilterNone)
}

// exemptions returns what follows the file of networks that see the containers' own
// addresses, or nil if there is none.
func exemptions(path string) func(context.Context, func([]netip.Prefix)) {
	if path == "" {
		return nil
	}
	return func(ctx context.Context, to func([]netip.Prefix)) { cidrfile.Follow(ctx, path, to) }
}

// wantedRules returns the rules that do not depend on the network.
func wantedRules(o options.Filtering) firewall.Rules {
	return firewall.Rules{Masquerade: o.Masquerade, Random: !o.PlainPorts, Exempt: slices.Clone(o.Exempt), Forward: o.Forward}
}
