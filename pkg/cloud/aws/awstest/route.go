package awstest

import (
	"net/netip"
)

// target is the target of a route: the element that names it, and its ID. The target for an
// instance is its interface.
type target struct{ element, id string }

var local = target{"gatewayId", "local"}

const (
	active    = "active"
	blackhole = "blackhole"
)

// stateOf returns the state of a route: blackhole if its target does not exist or cannot take
// packets.
func (a *account) stateOf(t *table, r *route) string {
	ok := false
	switch r.via.element {
	case "networkInterfaceId":
		n := a.enis.byID[r.via.id]
		ok = n != nil && (n.manager != "" || n.at != nil && n.at.instance.takesPackets())
	case "gatewayId":
		g := a.igws.byID[r.via.id]
		ok = r.via == local || g != nil && g.vpc == t.vpc || a.endpoints.byID[r.via.id] != nil
	case "egressOnlyInternetGatewayId":
		ok = a.egresses.byID[r.via.id] != nil
	case "natGatewayId":
		g := a.nats.byID[r.via.id]
		ok = g != nil && (g.state == "pending" || g.state == "available")
	}
	if !ok {
		return blackhole
	}
	return active
}

func writeRoute(r *request, t *table, o *route) {
	x := r.x
	switch {
	case o.list != "":
		x.text("destinationPrefixListId", o.list)
	case o.to.Addr().Is6():
		x.text("destinationIpv6CidrBlock", o.to.String())
	default:
		x.text("destinationCidrBlock", o.to.String())
	}
	if n := r.enis.byID[o.via.id]; n != nil && n.at != nil && o.via.element == "networkInterfaceId" {
		x.text("instanceId", n.at.instance.id)
		x.text("instanceOwnerId", r.place.account)
	}
	x.text(o.via.element, o.via.id)
	x.text("origin", o.origin)
	x.text("state", r.stateOf(t, o))
}

// destination returns the destination of a route that a request names.
func (r *request) destination() (netip.Prefix, error) {
	v4, v6 := r.form.text("DestinationCidrBlock"), r.form.text("DestinationIpv6CidrBlock")
	switch {
	case v4 != "" && v6 != "":
		return netip.Prefix{}, bad("InvalidParameterCombination", "The parameters DestinationCidrBlock and DestinationIpv6CidrBlock cannot be used together")
	case v4 == "" && v6 == "":
		return netip.Prefix{}, bad("MissingParameter", "The request must contain the parameter destinationCidrBlock or destinationIpv6CidrBlock or destinationPrefixListId")
	}
	return r.prefixOf(v4+v6, v6 != "")
}

// words returns a destination as errors write it.
func words(p netip.Prefix) string {
	if p.Addr().Is6() {
		return "destination-ipv6-cidr-block " + p.String()
	}
	return "destination-cidr-block " + p.String()
}

// targets are the parameters that name a route's target.
var targets = []string{"GatewayId", "InstanceId", "NetworkInterfaceId", "NatGatewayId", "EgressOnlyInternetGatewayId",
	"CarrierGatewayId", "CoreNetworkArn", "LocalGatewayId", "OdbNetworkArn", "TransitGatewayId", "VpcEndpointId", "VpcPeeringConnectionId"}

// targetFor returns the target that a request names for a route in a table.
func (r *request) targetFor(t *table, to netip.Prefix) (target, error) {
	given := ""
	for _, name := range targets {
		if r.form.text(name) == "" {
			continue
		}
		if given != "" {
			return target{}, bad("InvalidParameterCombination", "The parameters %s and %s cannot be used together", given, name)
		}
		given = name
	}
	id := r.form.text(given)
	switch given {
	case "":
		return target{}, bad("MissingParameter", "The request must contain one target for the route")
	case "GatewayId":
		return r.gatewayFor(t, id)
	case "EgressOnlyInternetGatewayId":
		g, err := named(r, &r.egresses, id, noEgress)
		switch {
		case err != nil:
			return target{}, err
		case g.vpc != t.vpc:
			return target{}, bad("InvalidParameterValue", "route table %s and egress only internet gateway %s belong to different networks", t.id, id)
		case !to.Addr().Is6():
			return target{}, bad("InvalidParameterValue", "The egress only internet gateway %s takes IPv6 packets only, and not those to %s", id, to)
		}
		return target{"egressOnlyInternetGatewayId", id}, nil
	case "NatGatewayId":
		g, err := named(r, &r.nats, id, missing("InvalidNatGatewayID.NotFound", "natGateway"))
		switch {
		case err != nil:
			return target{}, err
		case g.state == "deleting" || g.state == "deleted":
			return target{}, missing("InvalidNatGatewayID.NotFound", "natGateway")(id)
		case g.subnet.vpc != t.vpc:
			return target{}, bad("InvalidParameterValue", "route table %s and NAT gateway %s belong to different networks", t.id, id)
		}
		return target{"natGatewayId", id}, nil
	case "InstanceId":
		i, err := named(r, &r.instances, id, noInstance)
		if err != nil {
			return target{}, err
		}
		switch len(i.enis) {
		case 0:
			return target{}, noInstance(id)
		case 1:
			return r.interfaceFor(t, i.enis[0])
		}
		return target{}, bad("InvalidInstanceID", "There are multiple interfaces attached to instance '%s'. Please specify an interface ID for the operation instead.", id)
	case "NetworkInterfaceId":
		n, err := named(r, &r.enis, id, noInterface)
		if err != nil {
			return target{}, err
		}
		return r.interfaceFor(t, n)
	}
	return target{}, missing("Invalid"+given+".NotFound", given)(id)
}

func (r *request) gatewayFor(t *table, id string) (target, error) {
	if id == local.id {
		return target{}, bad("InvalidParameterValue", "The gateway ID 'local' is not valid for this route")
	}
	g, err := named(r, &r.igws, id, noGateway)
	if err != nil {
		return target{}, err
	}
	if g.vpc != t.vpc {
		return target{}, bad("InvalidParameterValue", "route table %s and network gateway %s belong to different networks", t.id, id)
	}
	return target{"gatewayId", id}, nil
}

func (r *request) interfaceFor(t *table, n *eni) (target, error) {
	if n.subnet.vpc != t.vpc {
		return target{}, bad("InvalidParameterValue", "route table %s and interface %s belong to different networks", t.id, n.id)
	}
	return target{"networkInterfaceId", n.id}, nil
}

func createRoute(r *request) error {
	t, err := r.tableOf("RouteTableId")
	if err != nil {
		return err
	}
	to, err := r.destination()
	if err != nil {
		return err
	}
	via, err := r.targetFor(t, to)
	if err != nil {
		return err
	}
	if t.to[to] != nil {
		return bad("RouteAlreadyExists", "The route identified by %s already exists.", to)
	}
	if err := r.insideVPC(t, to, via); err != nil {
		return err
	}
	if t.count(to.Addr().Is6()) >= r.set.RoutesPerTable {
		return bad("RouteLimitExceeded", "The maximum number of routes has been reached.")
	}
	t.add(&route{to: to, via: via, origin: "CreateRoute", made: r.now})
	r.x.flag("return", true)
	return nil
}

// insideVPC refuses a route within the VPC's own blocks that AWS does not allow: its
// destination is a whole subnet, and it leads to an interface or a NAT gateway.
func (r *request) insideVPC(t *table, to netip.Prefix, via target) *Error {
	for _, b := range append(append([]block(nil), t.vpc.v4...), t.vpc.v6...) {
		if !b.prefix.Contains(to.Addr()) || to.Bits() < b.prefix.Bits() {
			continue
		}
		if via.element != "networkInterfaceId" && via.element != "natGatewayId" {
			return bad("InvalidParameterValue", "The destination CIDR block %s is equal to or more specific than one of this VPC's CIDR blocks. This route can target only an interface or an instance.", to)
		}
		for _, s := range r.subnets.order {
			if s.vpc == t.vpc && (s.v4 == to || len(s.v6) > 0 && s.v6[0].prefix == to) {
				return nil
			}
		}
		return bad("InvalidParameterValue", "The destination CIDR block %s does not match any subnet CIDR block of this VPC.", to)
	}
	return nil
}

func replaceRoute(r *request) error {
	t, err := r.tableOf("RouteTableId")
	if err != nil {
		return err
	}
	to, err := r.destination()
	if err != nil {
		return err
	}
	back, err := r.form.truth("LocalTarget", false)
	if err != nil {
		return err
	}
	old := t.to[to]
	if old == nil {
		return bad("InvalidParameterValue", "There is no route defined for '%s' in the route table. Use CreateRoute instead.", to)
	}
	via := local
	if !back {
		if via, err = r.targetFor(t, to); err != nil {
			return err
		}
	}
	switch {
	case back && old.origin != "CreateRouteTable":
		return bad("InvalidParameterValue", "The route %s cannot be reset to the local target", to)
	case old.origin == "EnableVgwRoutePropagation":
		return bad("InvalidParameterValue", "cannot replace propagated route %s in route table %s", to, t.id)
	}
	old.via = via
	r.x.flag("return", true)
	return nil
}

func deleteRoute(r *request) error {
	t, err := r.tableOf("RouteTableId")
	if err != nil {
		return err
	}
	to, err := r.destination()
	if err != nil {
		return err
	}
	switch old := t.to[to]; {
	case old == nil:
		return bad("InvalidRoute.NotFound", "no route with %s in route table %s", words(to), t.id)
	case old.origin == "CreateRouteTable":
		return bad("InvalidParameterValue", "cannot remove local route %s in route table %s", to, t.id)
	default:
		t.remove(old)
	}
	r.x.flag("return", true)
	return nil
}
