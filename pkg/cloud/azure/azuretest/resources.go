package azuretest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const compute, network = "Microsoft.Compute", "Microsoft.Network"

// resourceName is the documented form of a route's name.
var resourceName = regexp.MustCompile(`^[a-z0-9]([a-z0-9_.-]*[a-z0-9_])?$`)

// in returns the path of a resource in the group.
func in(provider string, rest ...string) string {
	return "/subscriptions/" + Subscription + "/resourceGroups/" + Group + "/providers/" + provider + "/" + strings.Join(rest, "/")
}

func (s *Server) tablePath() string { return in(network, "routeTables", Table) }

// put stores a resource, as Azure shows it.
func (s *Server) put(path string, o Object) {
	s.etag++
	o["id"], o["etag"] = path, fmt.Sprintf(`W/"%d"`, s.etag)
	p := o["properties"].(Object)
	if p["provisioningState"] == nil {
		p["provisioningState"] = "Succeeded"
	}
	s.resources[strings.ToLower(path)] = o
}

// copied returns a resource that shares nothing with o.
func copied(o Object) (c Object) {
	text, _ := json.Marshal(o)
	_ = json.Unmarshal(text, &c)
	return c
}

// read answers a GET of a resource or of a list.
func (s *Server) read(w http.ResponseWriter, r *http.Request) {
	path, q := strings.ToLower(strings.TrimRight(r.URL.Path, "/")), r.URL.Query()
	show := func(o Object) Object {
		o = copied(o)
		if p := o["properties"].(Object); q.Get("$expand") != "instanceView" && q.Get("statusOnly") != "true" {
			delete(p, "instanceView")
		}
		return o
	}
	if strings.HasSuffix(path, "/usages") {
		writeJSON(w, http.StatusOK, Object{"value": []any{Object{"name": Object{"value": "RouteTables"}, "limit": 200}, Object{"name": Object{"value": "RoutesPerRouteTable"}, "limit": s.Most}}})
		return
	}
	if o, has := s.resources[path]; has {
		writeJSON(w, http.StatusOK, show(o))
		return
	}
	kind := path[strings.LastIndex(path, "/")+1:]
	whole := strings.HasPrefix(path, "/subscriptions/"+Subscription+"/providers/")
	items := []any{}
	for _, key := range slices.Sorted(maps.Keys(s.resources)) {
		parts := strings.Split(key, "/")
		own := parts[len(parts)-2] == kind && strings.Join(parts[:len(parts)-2], "/")+"/"+kind == path
		// The interfaces and addresses of a scale set's instances are a list of the set.
		ofSet := strings.HasPrefix(key, strings.TrimSuffix(path, "/"+kind)+"/virtualmachines/") && len(parts) > 11 && parts[len(parts)-2] == kind && strings.Contains(path, "/virtualmachinescalesets/")
		if own || ofSet || whole && kind == "virtualmachines" && len(parts) == 9 && parts[7] == kind {
			items = append(items, show(s.resources[key]))
		}
	}
	known := slices.Contains([]string{"virtualmachines", "virtualmachinescalesets", "networkinterfaces", "publicipaddresses"}, kind)
	set := strings.Contains(path, "/virtualmachinescalesets/") && s.resources[strings.TrimSuffix(path, "/"+kind)] == nil
	if !known || set {
		writeError(w, http.StatusNotFound, "ResourceNotFound", "The Resource '"+path+"' was not found.")
		return
	}
	s.writePage(w, r, items)
}

// writePage answers with a page of a list.
func (s *Server) writePage(w http.ResponseWriter, r *http.Request, items []any) {
	from, _ := strconv.Atoi(r.URL.Query().Get("$skiptoken"))
	to := len(items)
	o := Object{}
	if s.Page > 0 && from+s.Page < to {
		to = from + s.Page
		q := r.URL.Query()
		q.Set("$skiptoken", strconv.Itoa(to))
		o["nextLink"] = s.URL + r.URL.Path + "?" + q.Encode()
	}
	o["value"] = items[from:to]
	writeJSON(w, http.StatusOK, o)
}

// write answers a PUT: of a route table or an interface, if it is as the request says.
func (s *Server) write(w http.ResponseWriter, r *http.Request, body Object, late bool) {
	path := strings.ToLower(r.URL.Path)
	was, has := s.resources[path]
	switch {
	case !has || !strings.Contains(path, "/routetables/") && !strings.Contains(path, "/networkinterfaces/") || strings.Contains(path, "/virtualmachinescalesets/"):
		writeError(w, http.StatusBadRequest, "InvalidRequestFormat", "no such thing is written")
		return
	case r.Header.Get("If-Match") != was["etag"]:
		writeError(w, http.StatusPreconditionFailed, "PreconditionFailed", "Precondition failed.")
		return
	}
	for _, o := range s.operations {
		if o.path == path && o.left > 0 {
			s.step(o) // also if its answer was lost, so that no client polls it
			writeError(w, http.StatusConflict, "AnotherOperationInProgress", "Another operation on this or dependent resource is in progress.")
			return
		}
	}
	p, _ := body["properties"].(Object)
	if strings.Contains(path, "/routetables/") {
		if code, text := s.checkRoutes(p); code != "" {
			writeError(w, http.StatusBadRequest, code, text)
			return
		}
	}
	o := &operation{left: s.Steps, path: path}
	if late {
		o.failed, body = "InternalServerError", was
		p = was["properties"].(Object)
	}
	p["provisioningState"] = "Succeeded"
	if s.Steps > 0 || late {
		p["provisioningState"] = "Updating"
	}
	s.put(r.URL.Path, body)
	if s.Steps > 0 || late {
		s.next++
		at := fmt.Sprintf("/operations/%d", s.next)
		s.operations[at] = o
		w.Header().Set("Azure-AsyncOperation", s.URL+at+"?api-version=2025-05-01")
	}
	writeJSON(w, http.StatusOK, s.resources[path])
}

// checkRoutes returns the code with which Azure refuses the routes of a table.
func (s *Server) checkRoutes(p Object) (code, text string) {
	routes, ok := p["routes"].([]any)
	if !ok {
		return "InvalidRequestFormat", "routes"
	}
	if len(routes) > s.Most {
		return "RouteTableRoutesCountLimitReached", fmt.Sprintf("Cannot create more than %d routes.", s.Most)
	}
	names, prefixes := make(map[string]bool), make(map[string]bool)
	for _, item := range routes {
		r := item.(Object)
		at, _ := r["properties"].(Object)
		name, prefix := strings.ToLower(fmt.Sprint(r["name"])), fmt.Sprint(at["addressPrefix"])
		hop, _ := at["nextHopIpAddress"].(string)
		to, err := netip.ParsePrefix(prefix)
		via, bad := netip.ParseAddr(hop)
		switch {
		case len(name) > 80 || names[name] || !resourceName.MatchString(name):
			return "InvalidResourceName", name
		case prefixes[prefix]:
			return "RouteConflict", prefix
		case at["nextHopType"] == "VirtualAppliance" && (err != nil || bad != nil || to.Addr().Is4() != via.Is4() || to != to.Masked()):
			return "InvalidRouteNextHop", prefix + " via " + hop
		}
		names[name], prefixes[prefix] = true, true
	}
	return "", ""
}

// operation answers a look at an operation.
func (s *Server) operation(w http.ResponseWriter, path string) {
	o := s.operations[path]
	switch {
	case o == nil:
		writeError(w, http.StatusNotFound, "NotFound", path)
	case !s.step(o):
		writeJSON(w, http.StatusOK, Object{"status": "InProgress"})
	case o.failed != "":
		writeJSON(w, http.StatusOK, Object{"status": "Failed", "error": Object{"code": o.failed, "message": "An error occurred."}})
	default:
		writeJSON(w, http.StatusOK, Object{"status": "Succeeded"})
	}
}

// step brings an operation one step further, and reports whether it has ended.
func (s *Server) step(o *operation) bool {
	switch {
	case o.left > 1:
		o.left--
		return false
	case o.failed != "":
		s.end(o, "Failed")
	default:
		s.end(o, "Succeeded")
	}
	return true
}

// end ends an operation, which changes the ETag once more.
func (s *Server) end(o *operation, state string) {
	if p := s.resources[o.path]["properties"].(Object); p["provisioningState"] == "Updating" {
		p["provisioningState"] = state
		s.put(fmt.Sprint(s.resources[o.path]["id"]), s.resources[o.path])
	}
	o.left = 0
}
