package main

import (
	"net/netip"
	"time"

	"github.com/tulle-net/tulle/pkg/controller"
	"github.com/tulle-net/tulle/pkg/controller/route"
	"github.com/tulle-net/tulle/pkg/flags"
)

// routeSettings are about the routes in a cloud's tables.
type routeSettings struct {
	on            bool // --configure-cloud-routes
	period, grace time.Duration
}

// ledgerName is the first ConfigMap that lists the routes that are ours.
const ledgerName = "tulle-controller-routes"

// routeFlags are the flags of the route controller.
func (s *settings) routeFlags() []flags.Flag {
	return []flags.Flag{
		{Name: "configure-cloud-routes", Group: ofCloud, Default: "true",
			About: "route podCIDRs in the cloud's tables; needs --allocate-node-cidrs",
			Set:   flags.To(&s.route.on, flags.Bool)},
		{Name: "route-reconciliation-period", Group: ofCloud, Value: "DURATION", Default: "1m",
			About: "interval of comparisons of all route tables",
			Set:   flags.To(&s.route.period, readRouteTime)},
		{Name: "route-removal-grace", Group: ofCloud, Value: "DURATION", Default: "5m",
			About: "how long a route stays that no Node needs",
			Set:   flags.To(&s.route.grace, readRouteTime)},
	}
}

func readRouteTime(value string) (time.Duration, error) {
	d, err := time.ParseDuration(value)
	if err != nil || d < 10*time.Second || d > 24*time.Hour {
		return 0, flags.Refuse(value, "not a duration from 10s to 24h", "use one like 1m")
	}
	return d, nil
}

// routePart routes podCIDRs in the tables of the cloud.
var routePart = part{name: route.Name, aliases: []string{"route"}, idle: (*settings).idleRoutes, add: (*process).addRoutes}

// idleRoutes returns why the route controller has no work.
func (s *settings) idleRoutes() *flags.Error {
	switch {
	case s.cloud.provider == "":
		return s.needsCloud()
	case !s.route.on:
		return &flags.Error{Flag: "configure-cloud-routes", Value: "false", Why: "turns " + route.Name + " off", Fix: "leave it out"}
	case s.allocate && s.hasAliases():
		return &flags.Error{Flag: "cidr-allocator-type", Value: s.allocator, Why: "gives out alias ranges, which Google itself routes, so " + route.Name + " has no work", Fix: "leave it out of --controllers"}
	case !s.allocate && !s.inEtcd():
		return &flags.Error{Flag: "allocate-node-cidrs", Why: "off, and without it " + route.Name + " has no work", Fix: "add --allocate-node-cidrs"}
	}
	return nil
}

// addRoutes adds the route controller.
func (p *process) addRoutes() error {
	s := p.settings
	o := route.Options{
		Cloud: p.cloud, Nodes: route.Cluster{Client: p.client}, Within: s.routeRanges(),
		Ledger: route.NewConfigMaps(p.client, s.elect.Namespace, ledgerName),
		Period: s.route.period, Grace: s.route.grace, InFlight: s.provider().inFlight, Forwarding: s.provider().forwarding, DryRun: s.mode == controller.ObserveMode, Event: p.engine.Event,
	}
	if s.inEtcd() {
		o = p.leaseRoutes(o)
	}
	p.routes = route.New(p.engine, o)
	p.reports = append(p.reports, func(r *reading, all bool) {
		if all {
			now := p.routes.Report()
			r.routes = &now
		}
		r.say(p.routes.Waiting(), "Node waits for its routes", "Nodes wait for their routes", "every Node is routed")
	})
	return nil
}

// routeRanges returns the ranges that routes may lie in: those of podCIDRs, unless these
// ranges may change.
func (s settings) routeRanges() []netip.Prefix {
	if s.poolFile != "" || s.allocator == multiAllocator {
		return nil
	}
	return s.cluster
}

// checkRoutes rejects flags that have no effect without the route controller.
func (s *settings) checkRoutes(g *flags.Given) error {
	if s.runs(routePart) {
		return nil
	}
	for _, f := range s.routeFlags() {
		if g.Has(f.Name) && f.Name != "configure-cloud-routes" {
			return &flags.Error{Flag: g.From(f.Name), Why: "has no effect without " + route.Name, Fix: "leave it out, or use --cloud-provider and --allocate-node-cidrs"}
		}
	}
	return nil
}
