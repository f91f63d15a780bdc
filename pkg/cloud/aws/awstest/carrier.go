package awstest

// carrier is a carrier gateway. Its zones have none of them: no zone is a wavelength zone.
type carrier struct {
	meta
	vpc *vpc
}

var carrierKind = &kind[*carrier]{
	ids: "CarrierGatewayId", set: "carrierGatewaySet", least: 5, most: 1000,
	missing: missing("InvalidCarrierGatewayID.NotFound", "carrierGateway"),
	write:   func(*request, *carrier) {},
	by: attributes[*carrier]{
		"carrier-gateway-id": func(_ *request, g *carrier) []string { return one(g.id) },
		"vpc-id":             func(_ *request, g *carrier) []string { return one(g.vpc.id) },
	},
}

func describeCarriers(r *request) error { return describe(r, &shelf[*carrier]{}, carrierKind) }
