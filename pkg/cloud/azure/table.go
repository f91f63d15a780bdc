package azure

import (
	"encoding/json"
	"net/netip"
	"strings"

	"github.com/tulle-net/tulle/pkg/cloud"
)

// document is a JSON object. Members that are not known here stay as they were read.
type document map[string]json.RawMessage

// text returns a member that is a text, or "".
func (d document) text(name string) (value string) {
	_ = json.Unmarshal(d[name], &value)
	return value
}

// object returns a member that is an object, or nil.
func (d document) object(name string) (value document) {
	_ = json.Unmarshal(d[name], &value)
	return value
}

// set sets a member.
func (d document) set(name string, value any) {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // no value of ours has a form without JSON
	}
	d[name] = text
}

// bytes returns the text of the object.
func (d document) bytes() []byte {
	text, err := json.Marshal(d)
	if err != nil {
		panic(err) // it came from JSON
	}
	return text
}

// The types of next hops that matter here.
const (
	viaAddress = "VirtualAppliance"
	// failed is a provisioning state.
	failed = "Failed"
)

// routeTable is a route table as it was read, with changes.
type routeTable struct {
	whole, properties document
	rows              []row
	place             map[netip.Prefix]int // of the row of each destination
	names             map[string]bool      // of the routes, in small letters
}

// row is a route. One without a document was removed.
type row struct {
	document
	route cloud.Route
}

// tableOf returns the table in an answer, or why that cannot be of the API.
func tableOf(whole document, id string) (t routeTable, err error) {
	t = routeTable{whole: whole, properties: whole.object("properties"), place: make(map[netip.Prefix]int), names: make(map[string]bool)}
	switch {
	case !strings.EqualFold(whole.text("id"), id):
		return t, strange(readTable, "table", whole.text("id"))
	case t.properties == nil:
		return t, strange(readTable, "table without properties", id)
	case whole.text("etag") == "":
		return t, strange(readTable, "table without an ETag", id)
	}
	var routes []document
	if raw, has := t.properties["routes"]; has && json.Unmarshal(raw, &routes) != nil {
		return t, strange(readTable, "list of routes", string(raw))
	}
	for _, r := range routes {
		if r.object("properties").text("addressPrefix") == "" {
			return t, strange(readTable, "route without a prefix", r.text("name"))
		}
		t.add(r)
	}
	return t, nil
}

// add adds a route.
func (t *routeTable) add(r document) {
	v := routeOf(r)
	if v.Destination.IsValid() {
		t.place[v.Destination] = len(t.rows)
	}
	t.names[strings.ToLower(r.text("name"))] = true
	t.rows = append(t.rows, row{r, v})
}

// remove removes the route at a place.
func (t *routeTable) remove(i int) {
	delete(t.names, strings.ToLower(t.rows[i].text("name")))
	delete(t.place, t.rows[i].route.Destination)
	t.rows[i].document = nil
}

func (t *routeTable) etag() string { return t.whole.text("etag") }

// isFailed reports whether the last write of the table failed: what it shows may not be
// what the network does.
func (t *routeTable) isFailed() bool { return t.properties.text("provisioningState") == failed }

// text returns the table for a write of it.
func (t *routeTable) text() []byte {
	routes := make([]document, 0, len(t.rows))
	for _, r := range t.rows {
		if r.document != nil {
			routes = append(routes, r.document)
		}
	}
	t.properties.set("routes", routes)
	t.whole.set("properties", t.properties)
	return t.whole.bytes()
}

// hasName reports whether a route has a name. Azure ignores case in names.
func (t *routeTable) hasName(name string) bool { return t.names[strings.ToLower(name)] }

// routeOf returns what an answer says of a route. Azure does not show
// which next hops answer.
func routeOf(r document) cloud.Route {
	p := r.object("properties")
	v := cloud.Route{To: clip(p.text("addressPrefix")), Kind: cloud.ToGateway, Target: clip(p.text("nextHopType")), State: cloud.Active, Origin: cloud.Created}
	if to, err := netip.ParsePrefix(v.To); err == nil && !to.Addr().Is4In6() {
		v.Destination = to.Masked()
	}
	if hop := p.text("nextHopIpAddress"); strings.EqualFold(v.Target, viaAddress) {
		v.Kind, v.Target = cloud.ToInterface, clip(hop)
		if a, err := netip.ParseAddr(hop); err == nil {
			v.Target = a.Unmap().String()
		}
	}
	return v
}

// newRoute returns a route as it is written.
func newRoute(name string, to netip.Prefix, hop string) document {
	r, p := make(document), make(document)
	p.set("addressPrefix", to.String())
	p.set("nextHopType", viaAddress)
	p.set("nextHopIpAddress", hop)
	r.set("name", name)
	r.set("properties", p)
	return r
}
