package awstest

import (
	"net/netip"
	"slices"
	"strconv"
	"time"
)

// registered is what a target group sends packets to.
type registered struct {
	id, zone  string
	port      int
	made      time.Time // when it was registered
	at        netip.Addr
	leaving   bool
	departure int // counts deregistrations: one that registers again does not leave
}

// readTargets reads the targets that a request names.
func (r *request) readTargets(g *targetGroup) ([]*registered, error) {
	list := listed(r.form, "Targets")
	var all []*registered
	for _, f := range list {
		id, err := r.need(f, "Id")
		if err != nil {
			return nil, err
		}
		port, err := r.between(f, "Port", 1, 65535, g.port)
		if err != nil {
			return nil, err
		}
		all = append(all, &registered{id: id, port: port, zone: f.text("AvailabilityZone"), made: r.now})
	}
	return all, nil
}

// find returns a registered target.
func (g *targetGroup) find(id string, port int) *registered {
	i := slices.IndexFunc(g.targets, func(t *registered) bool { return t.id == id && t.port == port })
	if i < 0 {
		return nil
	}
	return g.targets[i]
}

func registerTargets(r *request) error {
	g, err := r.targetGroupOf()
	if err != nil {
		return err
	}
	all, err := r.readTargets(g)
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return invalid("1 validation error detected: Value null at 'targets' failed to satisfy constraint: Member must not be null")
	}
	for _, t := range all {
		if g.kind == "instance" {
			err = r.fitInstance(g, t)
		} else {
			err = r.fitIP(g, t)
		}
		if err != nil {
			return err
		}
	}
	added, inZone := 0, make(map[string]int)
	for _, t := range append(slices.Clone(g.targets), all...) {
		if o := g.find(t.id, t.port); o == nil || o == t {
			inZone[r.zoneOf(g, t)]++
			added++
		}
	}
	for _, n := range inZone {
		if n > r.set.TargetsPerZone {
			return bad("TooManyTargets", "The maximum number of targets in an Availability Zone has been reached: %d", r.set.TargetsPerZone)
		}
	}
	if added > min(r.set.TargetsPerBalancer, 1000) {
		return bad("TooManyTargets", "The maximum number of targets of the target group '%s' has been reached", g.id)
	}
	for _, t := range all {
		switch o := g.find(t.id, t.port); {
		case o == nil:
			g.targets = append(g.targets, t)
		case o.leaving:
			o.leaving, o.made = false, r.now
			o.departure++
		}
	}
	return nil
}

// fitInstance checks an instance that is to be a target.
func (r *request) fitInstance(g *targetGroup, t *registered) error {
	i := r.instances.byID[t.id]
	switch {
	case i == nil:
		return bad("InvalidTarget", "Instance ID '%s' is not valid", t.id)
	case t.zone != "":
		return invalid("You cannot specify an Availability Zone for targets of the type instance")
	case i.state != running:
		return bad("InvalidTarget", "The following targets are not in a running state and cannot be registered: '%s'", t.id)
	case i.subnet.vpc != g.vpc:
		return bad("InvalidTarget", "The following targets are not in the target group VPC '%s': '%s'", g.vpc.id, t.id)
	case g.family == "ipv6" && len(i.enis[0].v6) == 0:
		return bad("InvalidTarget", "The following targets have no primary IPv6 address: '%s'", t.id)
	}
	return nil
}

var private = []netip.Prefix{
	netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("172.16.0.0/12"), netip.MustParsePrefix("192.168.0.0/16"), netip.MustParsePrefix("100.64.0.0/10"),
}

// fitIP checks an address that is to be a target.
func (r *request) fitIP(g *targetGroup, t *registered) error {
	at, err := netip.ParseAddr(t.id)
	if err != nil || at.Is6() != (g.family == "ipv6") {
		return invalid("'%s' is not a valid IP address of the target group's IP address type '%s'", t.id, g.family)
	}
	t.at = at
	holds := func(b block) bool { return b.prefix.Contains(at) }
	switch {
	case slices.ContainsFunc(append(slices.Clone(g.vpc.v4), g.vpc.v6...), holds):
		if t.zone == "all" {
			return invalid("You cannot specify the Availability Zone 'all' for the IP address '%s', which is in the VPC", t.id)
		}
	case !slices.ContainsFunc(private, func(p netip.Prefix) bool { return p.Contains(at) }):
		return invalid("The IP address '%s' is not within a valid range", t.id)
	case t.zone != "all":
		return invalid("The Availability Zone must be 'all' for the IP address '%s', which is not in the VPC", t.id)
	}
	return nil
}

// zoneOf returns the zone of a target, "" for all.
func (a *account) zoneOf(g *targetGroup, t *registered) string {
	if i := a.instances.byID[t.id]; i != nil {
		return i.zone.name
	}
	for _, s := range a.subnets.order {
		if s.vpc == g.vpc && t.at.IsValid() && (s.v4.Contains(t.at) || s.holds6(t.at)) {
			return s.zone.name
		}
	}
	return ""
}

// deregisterTargets begins to take targets from a group. Those that it does not have are
// no error.
func deregisterTargets(r *request) error {
	g, err := r.targetGroupOf()
	if err != nil {
		return err
	}
	all, err := r.readTargets(g)
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return invalid("1 validation error detected: Value null at 'targets' failed to satisfy constraint: Member must not be null")
	}
	delay, _ := strconv.Atoi(g.attributes["deregistration_delay.timeout_seconds"])
	if len(r.balancersOf(g)) == 0 {
		delay = 0
	}
	leave := func(t *registered) {
		g.targets = slices.DeleteFunc(g.targets, func(o *registered) bool { return o == t })
	}
	for i, f := range listed(r.form, "Targets") {
		for _, t := range slices.Clone(g.targets) {
			// Without a port, all of the target's are meant.
			if t.leaving || t.id != all[i].id || f.has("Port") && t.port != all[i].port {
				continue
			}
			if delay == 0 {
				leave(t)
				continue
			}
			t.leaving = true
			t.departure++
			n := t.departure
			r.later(time.Duration(delay)*time.Second, func() {
				if t.leaving && t.departure == n {
					leave(t)
				}
			})
		}
	}
	return nil
}
