package awstest

import (
	"slices"
	"time"
)

// nat is a NAT gateway.
type nat struct {
	meta
	subnet  *subnet
	state   string
	eip     *eip
	eni     *eni
	deleted time.Time
}

var noNAT = func(id string) *Error { return bad("NatGatewayNotFound", "The Nat Gateway %s was not found", id) }

// createNAT makes a public NAT gateway, which needs a free elastic address.
func createNAT(r *request) error {
	s, err := wanted(r, "SubnetId", &r.subnets, noSubnet)
	if err != nil {
		return err
	}
	if kind := r.form.text("ConnectivityType"); kind != "" && kind != "public" {
		return bad("InvalidParameterValue", "Value (%s) for parameter connectivityType is invalid. This server has public NAT gateways only.", kind)
	}
	e, err := wanted(r, "AllocationId", &r.eips, noAllocation)
	if err != nil {
		return err
	}
	tags, err := r.newTags("natgateway")
	if err != nil {
		return err
	}
	switch {
	case e.eni != nil:
		return bad("Resource.AlreadyAssociated", "Elastic IP address [%s] is already associated", e.id)
	case !slices.ContainsFunc(r.igws.order, func(g *igw) bool { return g.vpc == s.vpc }):
		return bad("Gateway.NotAttached", "Network %s has no Internet gateway attached", s.vpc.id)
	case len(r.nats.find(func(o *nat) bool { return o.subnet.zone == s.zone && o.state != "deleted" })) >= r.set.NATsPerZone:
		return bad("NatGatewayLimitExceeded", "The maximum number of NAT Gateways has been reached.")
	}
	n, err := r.addInterface(plan{subnet: s, description: "Interface for NAT Gateway"})
	if err != nil {
		return err
	}
	g := r.nats.add(&nat{meta: r.newMeta("natgateway", "nat"), subnet: s, state: "pending", eip: e, eni: n})
	g.addTags(tags["natgateway"])
	n.manager, n.itype, n.check, n.groups = "amazon-nat", "nat_gateway", false, nil
	n.description += " " + g.id
	r.give(e, n, 0)
	r.later(r.set.NAT, func() {
		if g.state == "pending" {
			g.state = "available"
		}
	})
	r.x.within("natGateway", func() { writeNAT(r, g) })
	r.x.text("clientToken", r.form.text("ClientToken"))
	return nil
}

// deleteNAT begins to delete a gateway. Routes to it become blackholes. Its
// address is free when the deletion ends.
func deleteNAT(r *request) error {
	g, err := wanted(r, "NatGatewayId", &r.nats, noNAT)
	if err != nil {
		return err
	}
	if g.state != "deleting" && g.state != "deleted" {
		a := r.account
		g.state = "deleting"
		a.later(r.set.NAT, func() {
			g.state, g.deleted = "deleted", a.s.now()
			a.deleteInterface(g.eni)
			a.later(a.s.settings.Visible, func() { a.nats.remove(g) })
		})
	}
	r.x.text("natGatewayId", g.id)
	return nil
}

func writeNAT(r *request, g *nat) {
	x := r.x
	x.text("natGatewayId", g.id)
	x.text("vpcId", g.subnet.vpc.id)
	x.text("subnetId", g.subnet.id)
	x.text("state", g.state)
	x.text("connectivityType", "public")
	x.moment("createTime", g.made)
	x.moment("deleteTime", g.deleted)
	items(x, "natGatewayAddressSet", []*eip{g.eip}, func(e *eip) {
		x.text("allocationId", e.id)
		x.text("publicIp", e.public.String())
		x.text("networkInterfaceId", g.eni.id)
		x.text("privateIp", g.eni.v4[0].private.String())
		x.flag("isPrimary", true)
	})
	x.tags(g.tags)
}

var natKind = &kind[*nat]{
	ids: "NatGatewayId", set: "natGatewaySet", least: 5, most: 1000, missing: noNAT, write: writeNAT,
	by: attributes[*nat]{
		"nat-gateway-id": func(_ *request, g *nat) []string { return one(g.id) },
		"state":          func(_ *request, g *nat) []string { return one(g.state) },
		"subnet-id":      func(_ *request, g *nat) []string { return one(g.subnet.id) },
		"vpc-id":         func(_ *request, g *nat) []string { return one(g.subnet.vpc.id) },
	},
}

func describeNATs(r *request) error { return describe(r, &r.nats, natKind) }
