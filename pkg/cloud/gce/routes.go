package gce

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tulle-net/tulle/pkg/cloud"
)

// fieldsOfRoute are the fields that requests ask for.
const fieldsOfRoute = "name,network,description,destRange,priority,tags,nextHopInstance,nextHopIp,nextHopNetwork,nextHopGateway,nextHopPeering,nextHopIlb,nextHopVpnTunnel,nextHopHub,routeStatus,warnings(code)"

// route has the fields of a route that matter, with the API's names.
type route struct {
	Name        string   `json:"name"`
	Network     string   `json:"network"`
	Description string   `json:"description,omitempty"`
	To          string   `json:"destRange"`
	Priority    int      `json:"priority"`
	Tags        []string `json:"tags,omitempty"`
	Instance    string   `json:"nextHopInstance,omitempty"`
	IP          string   `json:"nextHopIp,omitempty"`
	Local       string   `json:"nextHopNetwork,omitempty"`
	Gateway     string   `json:"nextHopGateway,omitempty"`
	Peering     string   `json:"nextHopPeering,omitempty"`
	Balancer    string   `json:"nextHopIlb,omitempty"`
	Tunnel      string   `json:"nextHopVpnTunnel,omitempty"`
	Hub         string   `json:"nextHopHub,omitempty"`
	Status      string   `json:"routeStatus,omitempty"`
	Warnings    []struct {
		Code string `json:"code"`
	} `json:"warnings,omitempty"`
}

// routes is a page of a list.
type routes struct {
	list
	Items       []route  `json:"items"`
	Next        string   `json:"nextPageToken"`
	Unreachable []string `json:"unreachables"`
}

// dead are the warnings about routes that lead nowhere.
var dead = []string{"NEXT_HOP_INSTANCE_NOT_FOUND", "NEXT_HOP_NOT_RUNNING", "NEXT_HOP_INSTANCE_NOT_ON_NETWORK", "NEXT_HOP_ADDRESS_NOT_ASSIGNED"}

// Tables returns the routes of the network as one table, complete.
func (c *Client) Tables(ctx context.Context) ([]cloud.Table, error) {
	all, err := c.listRoutes(ctx)
	if err != nil {
		return nil, err
	}
	name, err := c.networkName(ctx)
	if err != nil {
		return nil, err
	}
	id := networkID(c.network.project, name)
	t := cloud.Table{ID: id, Name: name, Network: id, Ours: "the network of the cloud config", Routes: c.table(all)}
	t.Quota = c.quota(t)
	return []cloud.Table{t}, nil
}

// listRoutes returns all routes of the network.
func (c *Client) listRoutes(ctx context.Context) (all []route, err error) {
	name, err := c.networkName(ctx)
	if err != nil {
		return nil, err
	}
	project := c.network.project
	query := url.Values{
		"fields": {"kind,nextPageToken,unreachables,warning(code,message),items(" + fieldsOfRoute + ")"}, "maxResults": {strconv.Itoa(pageSize)},
		"filter": {fmt.Sprintf(`network eq ".*/projects/%s/global/networks/%s"`, regexp.QuoteMeta(project), regexp.QuoteMeta(name))},
	}
	bad := func(k cloud.Kind, format string, args ...any) error {
		return &cloud.Error{Kind: k, Action: listRoutes, Text: fmt.Sprintf(format, args...)}
	}
	isNetwork := false
	for range mostPages {
		var page routes
		err := c.do(ctx, request{action: listRoutes, method: http.MethodGet, at: place{project: project}, path: "global/routes", query: query}, &page)
		if err == nil {
			err = page.check(listRoutes, "compute#routeList")
		}
		switch {
		case err != nil:
			return nil, err
		case !page.Warning.isComplete() || len(page.Unreachable) > 0:
			return nil, incomplete(listRoutes, "the routes", page.Warning)
		}
		for n := range page.Items {
			switch r := &page.Items[n]; {
			case !routeNames.MatchString(r.Name):
				return nil, bad(cloud.Unavailable, "the answer has a route named %.80q; retrying", r.Name)
			case networkOf(r.Network) == networkID(project, name):
				isNetwork = isNetwork || r.Local != ""
				all = append(all, *r)
			}
		}
		if page.Next != "" {
			query.Set("pageToken", page.Next)
			continue
		}
		if !isNetwork {
			// Every network has the routes of its own subnetworks, so this list is none of it.
			return nil, bad(cloud.Missing, "project %s has no network %s with a subnetwork; correct network-name in the cloud config", project, name)
		}
		return all, nil
	}
	return nil, bad(cloud.Unavailable, "the list does not end after %d pages", mostPages)
}

// routeNames match the names of routes. Those of the system, too, are of this form.
var routeNames = regexp.MustCompile(`^[a-z]([a-z0-9-]{0,62})?$`)

// table returns the routes as those of a table. Of several to one destination, one is the
// destination's, and the others have none.
func (c *Client) table(all []route) (table []cloud.Route) {
	byTarget := make(map[netip.Prefix][]*route)
	for n := range all {
		r := &all[n]
		if v := c.route(r); v.Destination.IsValid() && v.Origin != cloud.Propagated && v.Kind != cloud.ToLocal {
			byTarget[v.Destination] = append(byTarget[v.Destination], r)
		} else {
			table = append(table, v)
		}
	}
	for to, same := range byTarget {
		first := c.first(same)
		table = append(table, first)
		for range len(same) - 1 {
			table = append(table, cloud.Route{To: "another route to " + to.String(), Kind: cloud.ToGateway, State: cloud.Active, Origin: cloud.Unmarked})
		}
	}
	slices.SortFunc(table, func(a, b cloud.Route) int { return strings.Compare(a.To, b.To) })
	return table
}

// first returns the route that stands for all routes to a destination: the one with our
// mark, if there is one, and of those the preferred one.
func (c *Client) first(same []*route) cloud.Route {
	slices.SortStableFunc(same, func(a, b *route) int {
		ours, theirs := 0, 0
		if !c.isMarked(a) {
			ours = 1
		}
		if !c.isMarked(b) {
			theirs = 1
		}
		return cmp.Or(cmp.Compare(ours, theirs), cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.Name, b.Name))
	})
	v := c.route(same[0])
	for _, r := range same[1:] {
		other := c.route(r)
		switch {
		case c.isMarked(r):
			if v.Split == "" && other.Instance != v.Instance {
				v.Split = other.Instance
			}
		case r.Priority <= same[0].Priority && v.Rival == "" && other.Instance+other.Target != v.Instance+v.Target:
			v.Rival = fmt.Sprintf("%s (route %s)", other, r.Name)
		}
	}
	return v
}

// route returns what an answer says of a route.
func (c *Client) route(r *route) cloud.Route {
	v := cloud.Route{To: r.To, Kind: cloud.ToGateway, State: cloud.Active, Origin: cloud.Unmarked}
	if p, err := netip.ParsePrefix(r.To); err == nil && p == p.Masked() && !p.Addr().Is4In6() {
		v.Destination = p
	}
	switch {
	case r.Peering != "" || r.Hub != "":
		v.Target, v.Origin = cmp.Or(r.Peering, path.Base(r.Hub)), cloud.Propagated
	case r.Local != "":
		v.Kind, v.Target, v.Origin = cloud.ToLocal, "local", cloud.WithTable
	case r.Instance != "" && len(r.Tags) > 0:
		v.Target = c.hop(r.Instance) + " for the tags " + strings.Join(r.Tags, ",")
	case r.Instance != "":
		v.Kind, v.Instance = cloud.ToInterface, c.hop(r.Instance)
	default:
		v.Target = path.Base(cmp.Or(r.Gateway, r.IP, r.Balancer, r.Tunnel, "an unknown next hop"))
	}
	if c.isMarked(r) {
		v.Origin = cloud.Created
	}
	for _, w := range r.Warnings {
		if slices.Contains(dead, w.Code) {
			v.State = cloud.Blackhole
		}
	}
	return v
}

// hop returns the ID of the instance that a URL of the API names. One of another project
// keeps its project.
func (c *Client) hop(link string) string {
	parts := strings.Split(link, "/")
	n := len(parts)
	if n < 4 || parts[n-4] != "zones" || parts[n-2] != "instances" {
		return clip(link)
	}
	id := machineID(parts[n-3], parts[n-1])
	if n >= 6 && parts[n-6] == "projects" && parts[n-5] != c.options.Project {
		id = clip(parts[n-5]) + "/" + id
	}
	return clip(id)
}

// clip limits a text of the API.
func clip(text string) string {
	text = strings.Map(func(r rune) rune {
		if r <= ' ' || r == ',' || r >= 0x7f {
			return '?'
		}
		return r
	}, text)
	return text[:min(len(text), 200)]
}

// recent is the list of routes of the last moment, for the changes of that moment.
type recent struct {
	mu   sync.Mutex
	read *routesRead
}

// routesRead is one read.
type routesRead struct {
	began time.Time
	stale map[netip.Prefix]bool // destinations whose routes we have changed since
	done  chan struct{}         // closed when the following is set
	all   []route
	err   error
}

const (
	// fresh is how old a read may be that shows what a change meets.
	fresh = time.Second
	// readLimit is how long such a read may take.
	readLimit = 12 * time.Second
)

// routesNow returns the routes to a destination as they are now.
func (c *Client) routesNow(ctx context.Context, to netip.Prefix) (same []*route, err error) {
	c.reads.mu.Lock()
	read := c.reads.read
	if now := time.Now(); read == nil || read.stale[to] || now.Sub(read.began) > fresh {
		read = &routesRead{began: now, stale: make(map[netip.Prefix]bool), done: make(chan struct{})}
		c.reads.read = read
		go func() {
			defer close(read.done)
			// Other changes wait for this read, too.
			within, cancel := context.WithTimeout(context.WithoutCancel(ctx), readLimit)
			defer cancel()
			read.all, read.err = c.listRoutes(within)
		}()
	}
	c.reads.mu.Unlock()
	select {
	case <-read.done:
	case <-ctx.Done():
		return nil, &cloud.Error{Kind: cloud.Unavailable, Action: listRoutes, Text: "the routes were not read in time: " + ctx.Err().Error()}
	}
	for n := range read.all {
		if p, err := netip.ParsePrefix(read.all[n].To); err == nil && p == to {
			same = append(same, &read.all[n])
		}
	}
	return same, read.err
}

// spoil records that the last read may show other routes to a destination than there are.
func (c *Client) spoil(to netip.Prefix) {
	c.reads.mu.Lock()
	defer c.reads.mu.Unlock()
	if c.reads.read != nil {
		c.reads.read.stale[to] = true
	}
}
