package awstest

import "slices"

// igw is an internet gateway.
type igw struct {
	meta
	vpc *vpc // nil while it is detached
}

func createGateway(r *request) error {
	tags, err := r.newTags("internet-gateway")
	if err != nil {
		return err
	}
	if len(r.igws.order) >= r.set.Gateways {
		return bad("InternetGatewayLimitExceeded", "The maximum number of internet gateways has been reached.")
	}
	g := r.igws.add(&igw{meta: r.newMeta("internet-gateway", "igw")})
	g.addTags(tags["internet-gateway"])
	r.x.within("internetGateway", func() { writeGateway(r, g) })
	return nil
}

// gatewayOf returns the gateway that a request names, and the VPC if the request names one.
func (r *request) gatewayOf(withVPC bool) (*igw, *vpc, error) {
	g, err := wanted(r, "InternetGatewayId", &r.igws, noIGW)
	if err != nil || !withVPC {
		return g, nil, err
	}
	v, err := wanted(r, "VpcId", &r.vpcs, noVPC)
	return g, v, err
}

func attachGateway(r *request) error {
	g, v, err := r.gatewayOf(true)
	if err != nil {
		return err
	}
	if g.vpc != nil {
		return bad("Resource.AlreadyAssociated", "resource %s is already attached to network %s", g.id, g.vpc.id)
	}
	if slices.ContainsFunc(r.igws.order, func(o *igw) bool { return o.vpc == v }) {
		return bad("InvalidParameterValue", "Network %s already has an internet gateway attached", v.id)
	}
	g.vpc = v
	r.x.flag("return", true)
	return nil
}

// detachGateway detaches a gateway from a VPC, in which no interface may have a public address.
// The routes to it become blackholes.
func detachGateway(r *request) error {
	g, v, err := r.gatewayOf(true)
	if err != nil {
		return err
	}
	if g.vpc != v {
		return bad("Gateway.NotAttached", "resource %s is not attached to network %s", g.id, v.id)
	}
	if slices.ContainsFunc(r.enis.order, func(n *eni) bool {
		return n.subnet.vpc == v && slices.ContainsFunc(n.v4, func(a address) bool { return a.public.IsValid() })
	}) {
		return bad("DependencyViolation", "Network %s has some mapped public address(es). Please unmap those public address(es) before detaching the gateway.", v.id)
	}
	g.vpc = nil
	r.x.flag("return", true)
	return nil
}

func deleteGateway(r *request) error {
	g, _, err := r.gatewayOf(false)
	if err != nil {
		return err
	}
	if g.vpc != nil {
		return bad("DependencyViolation", "The internetGateway '%s' has dependencies and cannot be deleted.", g.id)
	}
	r.igws.remove(g)
	r.x.flag("return", true)
	return nil
}

func writeGateway(r *request, g *igw) {
	r.x.text("internetGatewayId", g.id)
	r.x.text("ownerId", r.place.account)
	r.x.open("attachmentSet")
	if g.vpc != nil {
		r.x.within("item", func() {
			r.x.text("vpcId", g.vpc.id)
			r.x.text("state", "available")
		})
	}
	r.x.close("attachmentSet")
	r.x.tags(g.tags)
}

// ofAttachment returns a filter by a value that only an attached gateway has.
func ofAttachment(get func(*igw) string) func(*request, *igw) []string {
	return func(_ *request, g *igw) []string {
		if g.vpc == nil {
			return nil
		}
		return one(get(g))
	}
}

var gatewayKind = &kind[*igw]{
	ids: "InternetGatewayId", set: "internetGatewaySet", least: 5, most: 1000, missing: noIGW, write: writeGateway,
	by: attributes[*igw]{
		"internet-gateway-id": func(_ *request, g *igw) []string { return one(g.id) },
		"owner-id":            func(r *request, _ *igw) []string { return one(r.place.account) },
		"attachment.vpc-id":   ofAttachment(func(g *igw) string { return g.vpc.id }),
		"attachment.state":    ofAttachment(func(*igw) string { return "available" }),
	},
}

func describeGateways(r *request) error { return describe(r, &r.igws, gatewayKind) }
