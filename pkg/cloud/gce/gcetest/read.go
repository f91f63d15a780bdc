package gcetest

import (
	"fmt"
	"net/http"
	"regexp"
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
	var names map[string]bool
	if filter := query.Get("filter"); filter != "" {
		names = make(map[string]bool)
		for term := range strings.SplitSeq(filter, " OR ") {
			m := oneOf.FindStringSubmatch(term)
			if m == nil {
				return nil, &Fault{Code: 400, Reason: "invalid", Message: "Invalid value for field 'filter': '" + filter + "'. Invalid list filter expression."}
			}
			names[m[1]] = true
		}
	}
	most := 500
	if text := query.Get("maxResults"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || n > 500 {
			return nil, &Fault{Code: 400, Reason: "invalid", Message: "Invalid value for field 'maxResults': '" + text + "'."}
		}
		most = n
	}
	after := strings.TrimPrefix(query.Get("pageToken"), "after:")
	page := map[string]any{"kind": "compute#instanceList", "id": "projects/" + Project + "/zones/" + r.PathValue("zone") + "/instances"}
	s.Do(func() {
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
