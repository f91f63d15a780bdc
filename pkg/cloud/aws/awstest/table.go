package awstest

import (
	"net/netip"
	"slices"
	"time"
)

// table is a route table.
type table struct {
	meta
	vpc          *vpc
	routes       []*route
	to           map[netip.Prefix]*route
	associations []*association
}

// association associates a table with a subnet, with a gateway, or with a VPC as its main table.
type association struct {
	id      string
	main    bool
	subnet  *subnet
	gateway string
}

// route is a route of a table.
type route struct {
	to     netip.Prefix
	list   string // the ID of a prefix list, instead of to
	via    target
	origin string
	made   time.Time
}

func (t *table) add(r *route) {
	t.routes = append(t.routes, r)
	if r.list == "" {
		t.to[r.to] = r
	}
}

func (t *table) remove(r *route) {
	t.routes = slices.DeleteFunc(t.routes, func(o *route) bool { return o == r })
	if r.list == "" {
		delete(t.to, r.to)
	}
}

// count returns the number of routes that count against the quota of a family: all except
// propagated ones.
func (t *table) count(v6 bool) int {
	n := 0
	for _, r := range t.routes {
		if r.list == "" && r.to.Addr().Is6() == v6 && r.origin != "EnableVgwRoutePropagation" {
			n++
		}
	}
	return n
}

func (a *account) addTable(v *vpc) *table {
	t := a.tables.add(&table{meta: a.newMeta("route-table", "rtb"), vpc: v, to: make(map[netip.Prefix]*route)})
	for _, b := range slices.Concat(v.v4, v.v6) {
		t.add(&route{to: b.prefix, via: local, origin: "CreateRouteTable"})
	}
	return t
}

// addLocal adds the local route of a new block to the tables of a VPC.
func (a *account) addLocal(v *vpc, to netip.Prefix) {
	for _, t := range a.tables.order {
		if t.vpc == v {
			t.add(&route{to: to, via: local, origin: "CreateRouteTable"})
		}
	}
}

func createTable(r *request) error {
	v, err := wanted(r, "VpcId", &r.vpcs, noVPC)
	if err != nil {
		return err
	}
	tags, err := r.newTags("route-table")
	if err != nil {
		return err
	}
	if len(r.tables.find(func(t *table) bool { return t.vpc == v })) >= r.set.TablesPerVPC {
		return bad("RouteTableLimitExceeded", "The maximum number of route tables has been reached.")
	}
	t := r.addTable(v)
	t.addTags(tags["route-table"])
	r.x.within("routeTable", func() { writeTable(r, t) })
	r.x.text("clientToken", r.form.text("ClientToken"))
	return nil
}

func associateTable(r *request) error {
	t, err := r.tableOf("RouteTableId")
	if err != nil {
		return err
	}
	added := &association{id: "rtbassoc-" + r.hex()}
	switch sid, gid := r.form.text("SubnetId"), r.form.text("GatewayId"); {
	case sid != "" && gid != "":
		return bad("InvalidParameterCombination", "The parameters SubnetId and GatewayId cannot be used together")
	case sid != "":
		s, err := named(r, &r.subnets, sid, noSubnet)
		if err != nil {
			return err
		}
		if s.vpc != t.vpc {
			return bad("InvalidParameterValue", "Route table %s and subnet %s belong to different networks", t.id, s.id)
		}
		if has, old := r.tableFor(s); old != nil && has != t {
			return bad("Resource.AlreadyAssociated", "the specified association for route table %s conflicts with an existing association", t.id)
		} else if old != nil {
			r.associated("associationId", old.id)
			return nil
		}
		added.subnet = s
	case gid != "":
		g, err := named(r, &r.igws, gid, noGateway)
		if err != nil {
			return err
		}
		if g.vpc != t.vpc {
			return bad("InvalidParameterValue", "Route table %s and gateway %s belong to different networks", t.id, g.id)
		}
		added.gateway = gid
	default:
		return bad("MissingParameter", "The request must contain the parameter SubnetId or GatewayId")
	}
	t.associations = append(t.associations, added)
	r.associated("associationId", added.id)
	return nil
}

func (r *request) associated(element, id string) {
	r.x.text(element, id)
	r.x.within("associationState", func() { r.x.text("state", "associated") })
}

// tableOf returns the table that a parameter names.
func (r *request) tableOf(parameter string) (*table, error) {
	return wanted(r, parameter, &r.tables, noTable)
}

// tableFor returns the explicit association of a subnet.
func (a *account) tableFor(s *subnet) (*table, *association) {
	for _, t := range a.tables.order {
		for _, as := range t.associations {
			if as.subnet == s {
				return t, as
			}
		}
	}
	return nil, nil
}

func writeTable(r *request, t *table) {
	x := r.x
	x.text("routeTableId", t.id)
	x.text("vpcId", t.vpc.id)
	x.text("ownerId", r.place.account)
	x.open("routeSet")
	for _, one := range t.routes {
		if r.seen(one.made) {
			x.within("item", func() { writeRoute(r, t, one) })
		}
	}
	x.close("routeSet")
	items(x, "associationSet", t.associations, func(a *association) {
		x.text("routeTableAssociationId", a.id)
		x.text("routeTableId", t.id)
		if a.subnet != nil {
			x.text("subnetId", a.subnet.id)
		}
		x.text("gatewayId", a.gateway)
		x.flag("main", a.main)
		x.within("associationState", func() { x.text("state", "associated") })
	})
	x.open("propagatingVgwSet")
	x.close("propagatingVgwSet")
	x.tags(t.tags)
}

// ofRoutes returns a filter by a value of a table's routes.
func ofRoutes(get func(*request, *table, *route) string) func(*request, *table) []string {
	return func(r *request, t *table) []string {
		var all []string
		for _, one := range t.routes {
			if v := get(r, t, one); v != "" && r.seen(one.made) {
				all = append(all, v)
			}
		}
		return all
	}
}

func ofTarget(element string) func(*request, *table) []string {
	return ofRoutes(func(_ *request, _ *table, one *route) string {
		if one.via.element != element {
			return ""
		}
		return one.via.id
	})
}

func ofAssociations(get func(*association) []string) func(*request, *table) []string {
	return func(_ *request, t *table) []string {
		var all []string
		for _, a := range t.associations {
			all = append(all, get(a)...)
		}
		return all
	}
}

var tableKind = &kind[*table]{
	ids: "RouteTableId", set: "routeTableSet", least: 5, most: 100, missing: noTable, write: writeTable,
	by: attributes[*table]{
		"route-table-id":                         func(_ *request, t *table) []string { return one(t.id) },
		"vpc-id":                                 func(_ *request, t *table) []string { return one(t.vpc.id) },
		"owner-id":                               func(r *request, _ *table) []string { return one(r.place.account) },
		"association.route-table-association-id": ofAssociations(func(a *association) []string { return one(a.id) }),
		"association.route-table-id": func(_ *request, t *table) []string {
			if len(t.associations) == 0 {
				return nil
			}
			return one(t.id)
		},
		"association.main":       ofAssociations(func(a *association) []string { return yes(a.main) }),
		"association.gateway-id": ofAssociations(func(a *association) []string { return one(a.gateway) }),
		"association.subnet-id": ofAssociations(func(a *association) []string {
			if a.subnet == nil {
				return nil
			}
			return one(a.subnet.id)
		}),
		"route.destination-cidr-block": ofRoutes(func(_ *request, _ *table, one *route) string {
			if one.list != "" || one.to.Addr().Is6() {
				return ""
			}
			return one.to.String()
		}),
		"route.destination-ipv6-cidr-block": ofRoutes(func(_ *request, _ *table, one *route) string {
			if one.list != "" || one.to.Addr().Is4() {
				return ""
			}
			return one.to.String()
		}),
		"route.destination-prefix-list-id":      ofRoutes(func(_ *request, _ *table, one *route) string { return one.list }),
		"route.origin":                          ofRoutes(func(_ *request, _ *table, one *route) string { return one.origin }),
		"route.state":                           ofRoutes(func(r *request, t *table, one *route) string { return r.stateOf(t, one) }),
		"route.gateway-id":                      ofTarget("gatewayId"),
		"route.nat-gateway-id":                  ofTarget("natGatewayId"),
		"route.egress-only-internet-gateway-id": ofTarget("egressOnlyInternetGatewayId"),
		"route.instance-id": ofRoutes(func(r *request, _ *table, one *route) string {
			if n := r.enis.byID[one.via.id]; n != nil && n.at != nil {
				return n.at.instance.id
			}
			return ""
		}),
	},
}

func describeTables(r *request) error { return describe(r, &r.tables, tableKind) }
