package awstest

// egress is an egress-only internet gateway. It cannot be detached from its VPC.
type egress struct {
	meta
	vpc *vpc
}

var noEgress = missing("InvalidGatewayID.NotFound", "egressOnlyInternetGateway")

func createEgress(r *request) error {
	v, err := wanted(r, "VpcId", &r.vpcs, noVPC)
	if err != nil {
		return err
	}
	tags, err := r.newTags("egress-only-internet-gateway")
	if err != nil {
		return err
	}
	if len(r.egresses.order) >= r.set.Gateways {
		return bad("EgressOnlyInternetGatewayLimitExceeded", "The maximum number of egress-only internet gateways has been reached.")
	}
	g := r.egresses.add(&egress{meta: r.newMeta("egress-only-internet-gateway", "eigw"), vpc: v})
	g.addTags(tags["egress-only-internet-gateway"])
	r.x.within("egressOnlyInternetGateway", func() { writeEgress(r, g) })
	r.x.text("clientToken", r.form.text("ClientToken"))
	return nil
}

// deleteEgress deletes a gateway. Routes to it become blackholes.
func deleteEgress(r *request) error {
	g, err := wanted(r, "EgressOnlyInternetGatewayId", &r.egresses, noEgress)
	if err != nil {
		return err
	}
	r.egresses.remove(g)
	r.x.flag("returnCode", true)
	return nil
}

func writeEgress(r *request, g *egress) {
	r.x.text("egressOnlyInternetGatewayId", g.id)
	items(r.x, "attachmentSet", []*vpc{g.vpc}, func(v *vpc) {
		r.x.text("state", "attached")
		r.x.text("vpcId", v.id)
	})
	r.x.tags(g.tags)
}

// egressKind has only tags as attributes: AWS filters these gateways by nothing else.
var egressKind = &kind[*egress]{
	ids: "EgressOnlyInternetGatewayId", set: "egressOnlyInternetGatewaySet", least: 5, most: 255, missing: noEgress, write: writeEgress, by: attributes[*egress]{},
}

func describeEgresses(r *request) error { return describe(r, &r.egresses, egressKind) }
