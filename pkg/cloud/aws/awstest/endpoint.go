package awstest

import (
	"slices"
	"strings"
)

// endpoint is a gateway endpoint: routes of its tables lead to a service of AWS.
type endpoint struct {
	meta
	vpc           *vpc
	service, list string // the service and its prefix list
	policy        string
}

// services are the services with gateway endpoints, and their prefix lists.
var services = map[string]string{"s3": "pl-6ea54007", "dynamodb": "pl-66a5400f"}

const openPolicy = `{"Version":"2008-10-17","Statement":[{"Effect":"Allow","Principal":"*","Action":"*","Resource":"*"}]}`

var noEndpoint = func(id string) *Error {
	return bad("InvalidVpcEndpointId.NotFound", "The Vpc Endpoint Id '%s' does not exist", id)
}

func createEndpoint(r *request) error {
	v, err := wanted(r, "VpcId", &r.vpcs, noVPC)
	if err != nil {
		return err
	}
	name, err := r.form.want("ServiceName")
	if err != nil {
		return err
	}
	if kind := r.form.text("VpcEndpointType"); kind != "" && kind != "Gateway" {
		return bad("InvalidParameter", "This server has endpoints of the type Gateway only, and not %s", kind)
	}
	list, ok := services[strings.TrimPrefix(name, "com.amazonaws."+r.region+".")]
	if !ok {
		return bad("InvalidServiceName", "The Vpc Endpoint Service '%s' does not exist", name)
	}
	tables, err := r.endpointTables("RouteTableId", v, list)
	if err != nil {
		return err
	}
	tags, err := r.newTags("vpc-endpoint")
	if err != nil {
		return err
	}
	if len(r.endpoints.order) >= r.set.Endpoints {
		return bad("VpcEndpointLimitExceeded", "The maximum number of VPC endpoints has been reached.")
	}
	e := &endpoint{meta: r.newMeta("vpc-endpoint", "vpce"), vpc: v, service: name, list: list, policy: r.form.text("PolicyDocument")}
	if e.policy == "" {
		e.policy = openPolicy
	}
	e.addTags(tags["vpc-endpoint"])
	r.endpoints.add(e)
	for _, t := range tables {
		t.add(e.route())
	}
	r.x.within("vpcEndpoint", func() { writeEndpoint(r, e) })
	r.x.text("clientToken", r.form.text("ClientToken"))
	return nil
}

func (e *endpoint) route() *route {
	return &route{list: e.list, via: target{"gatewayId", e.id}, origin: "CreateRoute"}
}

// endpointTables returns the tables of a request in which an endpoint gets routes.
func (r *request) endpointTables(parameter string, v *vpc, list string) ([]*table, error) {
	var all []*table
	for _, id := range r.form.texts(parameter) {
		t, err := named(r, &r.tables, id, func(id string) *Error {
			return bad("InvalidRouteTableId.NotFound", "The routeTable ID '%s' does not exist", id)
		})
		switch {
		case err != nil:
			return nil, err
		case t.vpc != v:
			return nil, bad("InvalidParameter", "Route table %s does not belong to the VPC %s", id, v.id)
		case slices.ContainsFunc(t.routes, func(o *route) bool { return o.list == list }):
			return nil, bad("RouteAlreadyExists", "route table %s already has a route with destination-prefix-list-id %s", id, list)
		}
		all = append(all, t)
	}
	return all, nil
}

// drop removes an endpoint's routes from tables. Without tables, it removes all.
func (a *account) dropRoutes(e *endpoint, tables []string) {
	for _, t := range a.tables.order {
		if tables != nil && !slices.Contains(tables, t.id) {
			continue
		}
		for _, o := range slices.Clone(t.routes) {
			if o.via.id == e.id {
				t.remove(o)
			}
		}
	}
}

// modifyEndpoint changes the tables and the policy of an endpoint.
func modifyEndpoint(r *request) error {
	e, err := wanted(r, "VpcEndpointId", &r.endpoints, noEndpoint)
	if err != nil {
		return err
	}
	added, err := r.endpointTables("AddRouteTableId", e.vpc, e.list)
	if err != nil {
		return err
	}
	reset, err := r.form.truth("ResetPolicy", false)
	if err != nil {
		return err
	}
	if p := r.form.text("PolicyDocument"); p != "" {
		e.policy = p
	} else if reset {
		e.policy = openPolicy
	}
	if gone := r.form.texts("RemoveRouteTableId"); len(gone) > 0 {
		r.dropRoutes(e, gone)
	}
	for _, t := range added {
		t.add(e.route())
	}
	r.x.flag("return", true)
	return nil
}

// deleteEndpoints deletes endpoints. The answer names the ones that do not exist.
func deleteEndpoints(r *request) error {
	ids := r.form.texts("VpcEndpointId")
	if len(ids) == 0 {
		return bad("MissingParameter", "The request must contain the parameter VpcEndpointId")
	}
	var none []string
	for _, id := range ids {
		e, err := named(r, &r.endpoints, id, noEndpoint)
		if err != nil {
			none = append(none, id)
			continue
		}
		r.dropRoutes(e, nil)
		r.endpoints.remove(e)
	}
	items(r.x, "unsuccessful", none, func(id string) {
		r.x.text("resourceId", id)
		r.x.within("error", func() {
			wrong := noEndpoint(id)
			r.x.text("code", wrong.Code)
			r.x.text("message", wrong.Message)
		})
	})
	return nil
}

func writeEndpoint(r *request, e *endpoint) {
	x := r.x
	x.text("vpcEndpointId", e.id)
	x.text("vpcEndpointType", "Gateway")
	x.text("vpcId", e.vpc.id)
	x.text("serviceName", e.service)
	x.text("state", "available")
	x.text("policyDocument", e.policy)
	x.text("ownerId", r.place.account)
	x.moment("creationTimestamp", e.made)
	x.open("routeTableIdSet")
	for _, t := range r.tables.order {
		if slices.ContainsFunc(t.routes, func(o *route) bool { return o.via.id == e.id }) {
			x.always("item", t.id)
		}
	}
	x.close("routeTableIdSet")
	x.tags(e.tags)
}

var endpointKind = &kind[*endpoint]{
	ids: "VpcEndpointId", set: "vpcEndpointSet", least: 1, most: 1000, missing: noEndpoint, write: writeEndpoint,
	by: attributes[*endpoint]{
		"vpc-endpoint-id":    func(_ *request, e *endpoint) []string { return one(e.id) },
		"vpc-id":             func(_ *request, e *endpoint) []string { return one(e.vpc.id) },
		"service-name":       func(_ *request, e *endpoint) []string { return one(e.service) },
		"vpc-endpoint-state": func(*request, *endpoint) []string { return one("available") },
		"vpc-endpoint-type":  func(*request, *endpoint) []string { return one("Gateway") },
	},
}

func describeEndpoints(r *request) error { return describe(r, &r.endpoints, endpointKind) }
