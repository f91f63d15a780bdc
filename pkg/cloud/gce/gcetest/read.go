package gcetest

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

func (s *Server) get(r *http.Request) (answer any, fault *Fault) {
	s.Do(func() {
		i := s.instances[r.PathValue("zone")][r.PathValue("instance")]
		if i == nil {
			fault = notFound(r)
			return
		}
		answer = i.clone()
	})
	return answer, fault
}

func notFound(r *http.Request) *Fault {
	return &Fault{Code: 404, Reason: "notFound", Message: fmt.Sprintf("The resource 'projects/%s/zones/%s/instances/%s' was not found", r.PathValue("project"), r.PathValue("zone"), r.PathValue("instance"))}
}

// clone returns a copy that shares nothing that changes.
func (i *Instance) clone() *Instance {
	c := *i
	c.NetworkInterfaces = append([]Interface(nil), i.NetworkInterfaces...)
	for n := range c.NetworkInterfaces {
		c.NetworkInterfaces[n].AliasIPRanges = append([]AliasRange(nil), c.NetworkInterfaces[n].AliasIPRanges...)
	}
	return &c
}

// oneOf is a filter of the documented form for names: (name = "a") OR (name = "b").
var oneOf = regexp.MustCompile(`^\(name = "([a-z0-9-]+)"\)$`)

func (s *Server) list(r *http.Request) (answer any, fault *Fault) {
	query := r.URL.Query()
	names, most, fault := paging(query)
	if fault != nil {
		return nil, fault
	}
	after := strings.TrimPrefix(query.Get("pageToken"), "after:")
	page := map[string]any{"kind": "compute#instanceList", "id": "projects/" + Project + "/zones/" + r.PathValue("zone") + "/instances"}
	s.Do(func() {
		s.warn(page)
		if s.instances[r.PathValue("zone")] == nil {
			fault = &Fault{Code: 404, Reason: "notFound", Message: "The resource 'projects/" + Project + "/zones/" + r.PathValue("zone") + "' was not found"}
			return
		}
		var items []*Instance
		for _, i := range s.sorted(r.PathValue("zone")) {
			if i.Name <= after || names != nil && !names[i.Name] {
				continue
			}
			if len(items) == most {
				page["nextPageToken"] = "after:" + items[len(items)-1].Name
				break
			}
			items = append(items, i.clone())
		}
		if items != nil {
			page["items"] = items
		}
	})
	return page, fault
}

// paging returns the names that a list is about, or nil for all, and the size of a page.
func paging(query url.Values) (names map[string]bool, most int, fault *Fault) {
	if filter := query.Get("filter"); filter != "" {
		names = make(map[string]bool)
		for term := range strings.SplitSeq(filter, " OR ") {
			m := oneOf.FindStringSubmatch(term)
			if m == nil {
				return nil, 0, &Fault{Code: 400, Reason: "invalid", Message: "Invalid value for field 'filter': '" + filter + "'. Invalid list filter expression."}
			}
			names[m[1]] = true
		}
	}
	most, fault = pageSize(query)
	return names, most, fault
}

// pageSize returns the size of a page.
func pageSize(query url.Values) (int, *Fault) {
	text := query.Get("maxResults")
	n, err := strconv.Atoi(cmp.Or(text, "500"))
	if err != nil || n < 0 || n > 500 {
		return 0, &Fault{Code: 400, Reason: "invalid", Message: "Invalid value for field 'maxResults': '" + text + "'."}
	}
	return n, nil
}

// warn adds the warning of Partial to a page.
func (s *Server) warn(page map[string]any) {
	if s.Partial != "" {
		page["warning"] = map[string]string{"code": s.Partial, "message": "The list may be incomplete."}
	}
}

// listAll lists the instances of all zones. Of a zone that does not answer, there is a
// warning only, and only if the client accepts that.
func (s *Server) listAll(r *http.Request) (answer any, fault *Fault) {
	query := r.URL.Query()
	names, most, fault := paging(query)
	if fault != nil {
		return nil, fault
	}
	after := strings.TrimPrefix(query.Get("pageToken"), "after:")
	items, page := make(map[string]any), map[string]any{"kind": "compute#instanceAggregatedList", "id": "projects/" + Project + "/aggregated/instances"}
	s.Do(func() {
		s.warn(page)
		n, last, full := 0, "", false
		var unreachable []string
		for _, zone := range slices.Sorted(maps.Keys(s.instances)) {
			scope := "zones/" + zone
			if s.Unreachable[zone] {
				unreachable = append(unreachable, scope)
				items[scope] = map[string]any{"warning": map[string]string{"code": "UNREACHABLE", "message": "The zone does not answer."}}
				continue
			}
			var some []*Instance
			for _, i := range s.sorted(zone) {
				key := zone + "/" + i.Name
				if key <= after || names != nil && !names[i.Name] {
					continue
				}
				if full = n == most; full {
					break
				}
				some, last, n = append(some, i.clone()), key, n+1
			}
			if items[scope] = map[string]any{"instances": some}; some == nil {
				items[scope] = map[string]any{"warning": map[string]string{"code": "NO_RESULTS_ON_PAGE", "message": "There are no results for scope '" + scope + "' on this page."}}
			}
			if full {
				page["nextPageToken"] = "after:" + last
				break
			}
		}
		if page["items"] = items; unreachable != nil {
			page["unreachables"] = unreachable
			if query.Get("returnPartialSuccess") != "true" {
				fault = &Fault{Code: 503, Reason: "backendError", Message: "Zones do not answer."}
			}
		}
	})
	return page, fault
}
