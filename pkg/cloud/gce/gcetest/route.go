package gcetest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strings"
)

// Route is a route in its documented form, as far as the server keeps it.
type Route struct {
	Kind            string         `json:"kind"`
	Name            string         `json:"name"`
	Description     string         `json:"description,omitempty"`
	Network         string         `json:"network"`
	DestRange       string         `json:"destRange"`
	Priority        int            `json:"priority"`
	Tags            []string       `json:"tags,omitempty"`
	NextHopInstance string         `json:"nextHopInstance,omitempty"`
	NextHopIP       string         `json:"nextHopIp,omitempty"`
	NextHopNetwork  string         `json:"nextHopNetwork,omitempty"`
	NextHopGateway  string         `json:"nextHopGateway,omitempty"`
	NextHopPeering  string         `json:"nextHopPeering,omitempty"`
	Warnings        []RouteWarning `json:"warnings,omitempty"`
}

// RouteWarning is what is wrong with a route.
type RouteWarning struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// NetworkURL returns the URL of a network.
func (s *Server) NetworkURL(name string) string {
	return s.Endpoint() + "projects/" + Project + "/global/networks/" + name
}

// InstanceURL returns the URL of an instance.
func (s *Server) InstanceURL(zone, name string) string {
	return s.Endpoint() + "projects/" + Project + "/zones/" + zone + "/instances/" + name
}

// AddNetwork adds the routes that a network has from its beginning: that of its
// subnetwork, and the default route.
func (s *Server) AddNetwork(name, subnetwork string) {
	s.Put(Route{Name: "default-route-r-" + name, Network: s.NetworkURL(name), DestRange: subnetwork, NextHopNetwork: s.NetworkURL(name)})
	s.Put(Route{Name: "default-route-" + name, Network: s.NetworkURL(name), DestRange: "0.0.0.0/0", Priority: 1000, NextHopGateway: s.Endpoint() + "projects/" + Project + "/global/gateways/default-internet-gateway"})
}

// Put puts a route into the project, as by hand.
func (s *Server) Put(r Route) {
	r.Kind = "compute#route"
	s.Do(func() { s.vpc[r.Name] = &r })
}

// Drop removes a route, as by hand.
func (s *Server) Drop(name string) { s.Do(func() { delete(s.vpc, name) }) }

// Routes returns the routes of the project by name.
func (s *Server) Routes() map[string]Route {
	all := make(map[string]Route)
	s.Do(func() {
		for name, r := range s.vpc {
			all[name] = *r
		}
	})
	return all
}

// RoutesTo returns the names of the instances that a destination is routed to by name, the
// preferred one first.
func (s *Server) RoutesTo(destination string) (all []string) {
	var found []Route
	for _, r := range s.Routes() {
		if r.DestRange == destination && r.NextHopInstance != "" {
			found = append(found, r)
		}
	}
	slices.SortFunc(found, func(a, b Route) int {
		if a.Priority != b.Priority {
			return a.Priority - b.Priority
		}
		return strings.Compare(a.Name, b.Name)
	})
	for _, r := range found {
		all = append(all, r.NextHopInstance[strings.LastIndexByte(r.NextHopInstance, '/')+1:])
	}
	return all
}

// address returns an address of the subnetwork 10.128.0.0/16 for an instance.
func (s *Server) address() string {
	n := 2
	s.Do(func() {
		for _, zone := range s.instances {
			n += len(zone)
		}
	})
	return netip.AddrFrom4([4]byte{10, 128, byte(n >> 8), byte(n)}).String()
}

// ofNetwork is a filter of the documented form for a network: network eq "expression".
var ofNetwork = regexp.MustCompile(`^network eq "(.*)"$`)

func (s *Server) listRoutes(r *http.Request) (answer any, fault *Fault) {
	query := r.URL.Query()
	match := regexp.MustCompile("")
	if filter := query.Get("filter"); filter != "" {
		m := ofNetwork.FindStringSubmatch(filter)
		var err error
		if m != nil {
			match, err = regexp.Compile("^(" + m[1] + ")$")
		}
		if m == nil || err != nil {
			return nil, &Fault{Code: 400, Reason: "invalid", Message: "Invalid value for field 'filter': '" + filter + "'. Invalid list filter expression."}
		}
	}
	most, fault := pageSize(query)
	if fault != nil {
		return nil, fault
	}
	after := strings.TrimPrefix(query.Get("pageToken"), "after:")
	page := map[string]any{"kind": "compute#routeList", "id": "projects/" + Project + "/global/routes"}
	s.Do(func() {
		s.warn(page)
		var names []string
		for name, v := range s.vpc {
			if name > after && match.MatchString(v.Network) {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		if len(names) > most {
			names = names[:most]
			page["nextPageToken"] = "after:" + names[most-1]
		}
		items := []Route{}
		for _, name := range names {
			items = append(items, s.warned(*s.vpc[name]))
		}
		page["items"] = items
	})
	return page, fault
}

// warned returns a route with the warnings that its next hop earns.
func (s *Server) warned(r Route) Route {
	if r.NextHopInstance == "" {
		return r
	}
	parts := strings.Split(r.NextHopInstance, "/")
	i := s.instances[parts[len(parts)-3]][parts[len(parts)-1]]
	switch {
	case i == nil:
		r.Warnings = []RouteWarning{{"NEXT_HOP_INSTANCE_NOT_FOUND", "The next hop does not exist."}}
	case i.Status != "RUNNING":
		r.Warnings = []RouteWarning{{"NEXT_HOP_NOT_RUNNING", "The next hop does not run."}}
	case !i.CanIPForward:
		r.Warnings = []RouteWarning{{"NEXT_HOP_CANNOT_IP_FORWARD", "The next hop cannot forward."}}
	}
	return r
}

func noRoute(name string) *Fault {
	return &Fault{Code: 404, Reason: "notFound", Message: "The resource 'projects/" + Project + "/global/routes/" + name + "' was not found"}
}

func (s *Server) getRoute(r *http.Request) (answer any, fault *Fault) {
	s.Do(func() {
		v := s.vpc[r.PathValue("route")]
		if v == nil {
			fault = noRoute(r.PathValue("route"))
			return
		}
		answer = s.warned(*v)
	})
	return answer, fault
}

var routeName = regexp.MustCompile(`^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$`)

// insertRoute begins to create a route.
func (s *Server) insertRoute(r *http.Request) (answer any, fault *Fault) {
	v := Route{Priority: 1000}
	if err := json.NewDecoder(r.Body).Decode(&v); err != nil {
		return nil, &Fault{Code: 400, Reason: "parseError", Message: "Parse Error"}
	}
	invalid := func(field, value string) *Fault {
		return &Fault{Code: 400, Reason: "invalid", Message: fmt.Sprintf("Invalid value for field 'resource.%s': '%s'.", field, value)}
	}
	p, err := netip.ParsePrefix(v.DestRange)
	switch {
	case !routeName.MatchString(v.Name):
		return nil, invalid("name", v.Name)
	case err != nil || p != p.Masked():
		return nil, invalid("destRange", v.DestRange)
	case v.Priority < 0 || v.Priority > 65535:
		return nil, invalid("priority", fmt.Sprint(v.Priority))
	}
	v.Kind = "compute#route"
	s.Do(func() {
		parts := strings.Split(v.NextHopInstance, "/")
		if len(parts) < 4 {
			fault = invalid("nextHopInstance", v.NextHopInstance)
			return
		}
		if s.instances[parts[len(parts)-3]][parts[len(parts)-1]] == nil {
			fault = &Fault{Code: 404, Reason: "notFound", Message: "The resource '" + v.NextHopInstance + "' was not found"}
			return
		}
		for _, other := range s.vpc {
			q, _ := netip.ParsePrefix(other.DestRange)
			if other.NextHopNetwork != "" && other.Network == v.Network && q.Overlaps(p) && q.Bits() <= p.Bits() {
				fault = invalid("destRange", v.DestRange)
				return
			}
		}
		if s.vpc[v.Name] != nil {
			fault = &Fault{Code: 409, Reason: "alreadyExists", Message: "The resource 'projects/" + Project + "/global/routes/" + v.Name + "' already exists"}
			return
		}
		answer = *s.begin("insert", func() (string, string) {
			switch {
			case s.vpc[v.Name] != nil:
				return "RESOURCE_ALREADY_EXISTS", "The resource '" + v.Name + "' already exists."
			case s.static(v.Network) >= s.MostRoutes:
				return "QUOTA_EXCEEDED", fmt.Sprintf("Quota 'STATIC_ROUTES_PER_NETWORK' exceeded.  Limit: %d.0", s.MostRoutes)
			}
			s.vpc[v.Name] = &v
			return "", ""
		})
	})
	return answer, fault
}

// static returns how many static routes a network has: all but those of its subnetworks.
func (s *Server) static(network string) (n int) {
	for _, v := range s.vpc {
		if v.Network == network && v.NextHopNetwork == "" {
			n++
		}
	}
	return n
}

// deleteRoute begins to delete a route.
func (s *Server) deleteRoute(r *http.Request) (answer any, fault *Fault) {
	name := r.PathValue("route")
	s.Do(func() {
		if s.vpc[name] == nil {
			fault = noRoute(name)
			return
		}
		answer = *s.begin("delete", func() (string, string) {
			if s.vpc[name] == nil {
				return "RESOURCE_NOT_FOUND", "The resource '" + name + "' was not found."
			}
			delete(s.vpc, name)
			return "", ""
		})
	})
	return answer, fault
}

func (s *Server) listOperations(r *http.Request) (answer any, fault *Fault) {
	names, _, fault := paging(r.URL.Query())
	if fault != nil {
		return nil, fault
	}
	items := []operation{}
	s.Do(func() {
		for name, o := range s.operations {
			if (names == nil || names[name]) && !s.Forgets {
				items = append(items, *o)
			}
		}
	})
	return map[string]any{"kind": "compute#operationList", "items": items}, nil
}
