package awstest

import "slices"

// health is the health of a target as a describe words it.
type health struct{ state, reason, text string }

// healthOf returns the health of a target.
func (r *request) healthOf(g *targetGroup, t *registered) health {
	i, zone := r.instances.byID[t.id], r.zoneOf(g, t)
	enabled := func(b *balancer) bool {
		return zone == "" || b.attributes["load_balancing.cross_zone.enabled"] == "true" ||
			slices.ContainsFunc(b.places, func(p *foothold) bool { return p.eni.subnet.zone.name == zone })
	}
	balancers := r.balancersOf(g)
	since := t.made
	for _, b := range balancers {
		if b.made.After(since) {
			since = b.made
		}
	}
	switch {
	case t.leaving:
		return health{"draining", "Target.DeregistrationInProgress", "Target deregistration is in progress"}
	case len(balancers) == 0:
		return health{"unused", "Target.NotInUse", "Target group is not configured to receive traffic from the load balancer"}
	case !slices.ContainsFunc(balancers, enabled):
		return health{"unused", "Target.NotInUse", "Target is in an Availability Zone that is not enabled for the load balancer"}
	case g.kind == "instance" && i.state != running && i.state != pending:
		return health{"unused", "Target.InvalidState", "Target is in the stopped state"}
	case r.now.Sub(since) < r.set.Health:
		return health{"initial", "Elb.InitialHealthChecking", "Initial health checks in progress"}
	case r.failing[t.id]:
		return health{"unhealthy", "Target.FailedHealthChecks", "Health checks failed"}
	}
	return health{state: "healthy"}
}

// prune takes the instances from a group that have been terminated.
func (a *account) prune(g *targetGroup) {
	if g.kind == "instance" {
		g.targets = slices.DeleteFunc(g.targets, func(t *registered) bool {
			i := a.instances.byID[t.id]
			return i == nil || i.state == terminated
		})
	}
}

func describeTargetHealth(r *request) error {
	g, err := r.targetGroupOf()
	if err != nil {
		return err
	}
	r.prune(g)
	wanted, err := r.readTargets(g)
	if err != nil {
		return err
	}
	type shown struct {
		t *registered
		health
	}
	var all []shown
	if len(wanted) == 0 {
		for _, t := range g.targets {
			all = append(all, shown{t, r.healthOf(g, t)})
		}
	}
	for _, w := range wanted {
		if t := g.find(w.id, w.port); t != nil {
			all = append(all, shown{t, r.healthOf(g, t)})
		} else {
			all = append(all, shown{w, health{"unused", "Target.NotRegistered", "Target is not registered to the target group"}})
		}
	}
	x := r.x
	members(x, "TargetHealthDescriptions", all, func(s shown) {
		x.within("Target", func() {
			x.text("Id", s.t.id)
			x.number("Port", s.t.port)
			x.text("AvailabilityZone", s.t.zone)
		})
		port := g.check.port
		if port == trafficPort {
			port = itoa(s.t.port)
		}
		x.text("HealthCheckPort", port)
		x.within("TargetHealth", func() {
			x.text("State", s.state)
			x.text("Reason", s.reason)
			x.text("Description", s.text)
		})
	})
	return nil
}
