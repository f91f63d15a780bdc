package gcetest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Project is the project of the server.
const Project = "my-project-1"

// Token is the access token that the server accepts.
const Token = "secret-access-token"

// Instance is an instance in its documented form, as far as the server keeps it.
type Instance struct {
	Kind              string      `json:"kind"`
	ID                string      `json:"id"`
	Name              string      `json:"name"`
	Zone              string      `json:"zone"`
	Status            string      `json:"status"`
	MachineType       string      `json:"machineType,omitempty"`
	CanIPForward      bool        `json:"canIpForward,omitempty"`
	LastStart         string      `json:"lastStartTimestamp,omitempty"`
	NetworkInterfaces []Interface `json:"networkInterfaces,omitempty"`
}

// Interface is a network interface in its documented form.
type Interface struct {
	Kind              string       `json:"kind,omitempty"`
	Name              string       `json:"name,omitempty"`
	Network           string       `json:"network,omitempty"`
	NetworkIP         string       `json:"networkIP,omitempty"`
	AccessConfigs     []IPv4Access `json:"accessConfigs,omitempty"`
	Fingerprint       string       `json:"fingerprint,omitempty"`
	AliasIPRanges     []AliasRange `json:"aliasIpRanges,omitempty"`
	IPv6Address       string       `json:"ipv6Address,omitempty"`
	IPv6AccessType    string       `json:"ipv6AccessType,omitempty"`
	IPv6AccessConfigs []IPv6Access `json:"ipv6AccessConfigs,omitempty"`
}

// AliasRange is an alias range in its documented form.
type AliasRange struct {
	IPCidrRange         string `json:"ipCidrRange"`
	SubnetworkRangeName string `json:"subnetworkRangeName,omitempty"`
}

// IPv4Access is an external IPv4 address.
type IPv4Access struct {
	NatIP string `json:"natIP,omitempty"`
}

// IPv6Access is an external IPv6 range.
type IPv6Access struct {
	ExternalIPv6 string `json:"externalIpv6"`
}

// Fault is an answer in place of the server's.
type Fault struct {
	Code            int
	Reason, Message string
	// After is the header Retry-After, in seconds.
	After string
}

// Server is the server.
type Server struct {
	*httptest.Server
	t testing.TB

	mu         sync.Mutex
	instances  map[string]map[string]*Instance // by zone and name
	operations map[string]*operation
	requests   map[string]string // the operation of each requestId
	vpc        map[string]*Route // by name
	asked      []string          // actions
	queries    []string          // what was asked in full
	versions   int

	// Refuse answers a request with a Fault, unless it returns nil.
	Refuse func(action string) *Fault
	// Lose serves a request, and cuts the connection in place of an answer.
	Lose func(action string) bool
	// Late lets operations end only after Release.
	Late bool
	// Idle lets a wait return at once, ended or not, as the API does under load.
	Idle bool
	// Fails, if set, is the code of the error with which operations end.
	Fails string
	// Latency is how long each request takes. The server works in the middle of it, also
	// for a client that has gone.
	Latency time.Duration
	// Lasts is how long an operation takes.
	Lasts time.Duration
	// Secondary are the ranges of the subnetwork by name. Without any, each is accepted.
	Secondary map[string]netip.Prefix
	// Forgets lets no list of operations have any.
	Forgets bool
	// Unreachable are zones that do not answer a list of all zones.
	Unreachable map[string]bool
	// Partial is the code of a warning that every list carries, if it is set.
	Partial string
	// Garble answers a request with a text in place of the server's, unless it is "".
	Garble func(action string) string
	// MostRoutes is how many static routes a network may have.
	MostRoutes int
	// Network is what the metadata server says about the instance's network.
	Network string
	// Tokens counts the tokens that were handed out.
	Tokens int
}

// New returns a Server that ends with the test.
func New(t testing.TB) *Server {
	s := newServer(t)
	s.Server = httptest.NewServer(s.routes())
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

func newServer(t testing.TB) *Server {
	return &Server{
		t: t, instances: make(map[string]map[string]*Instance), operations: make(map[string]*operation),
		requests: make(map[string]string), vpc: make(map[string]*Route), MostRoutes: 250, Network: "projects/123456789/networks/default",
	}
}

// Endpoint is the API's address.
func (s *Server) Endpoint() string { return s.URL + "/compute/v1/" }

// Do calls f while nothing is served.
func (s *Server) Do(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// ID returns the provider ID of an instance.
func ID(zone, name string) string { return "gce://" + Project + "/" + zone + "/" + name }

// Add adds an instance to a zone. It has one interface, with these aliases of a range.
func (s *Server) Add(zone, name, from string, aliases ...string) {
	i := &Instance{
		Kind: "compute#instance", ID: fmt.Sprint(len(name), "00"), Name: name, Status: "RUNNING",
		Zone: s.Endpoint() + "projects/" + Project + "/zones/" + zone, CanIPForward: true, LastStart: "2026-11-01T08:00:00.000-07:00",
		MachineType: s.Endpoint() + "projects/" + Project + "/zones/" + zone + "/machineTypes/e2-standard-4",
		NetworkInterfaces: []Interface{{
			Kind: "compute#networkInterface", Name: "nic0", Network: s.NetworkURL("default"), NetworkIP: s.address(),
		}},
	}
	for _, a := range aliases {
		i.NetworkInterfaces[0].AliasIPRanges = append(i.NetworkInterfaces[0].AliasIPRanges, AliasRange{a, from})
	}
	s.Do(func() {
		if s.instances[zone] == nil {
			s.instances[zone] = make(map[string]*Instance)
		}
		s.instances[zone][name] = i
		s.touch(i)
	})
}

// touch gives the interfaces of an instance other fingerprints.
func (s *Server) touch(i *Instance) {
	s.versions++
	for n := range i.NetworkInterfaces {
		i.NetworkInterfaces[n].Fingerprint = fmt.Sprintf("fp-%d-%d=", s.versions, n)
	}
}

// Change changes an instance.
func (s *Server) Change(zone, name string, f func(*Instance)) {
	s.Do(func() {
		i := s.instances[zone][name]
		f(i)
		s.touch(i)
	})
}

// Remove removes an instance.
func (s *Server) Remove(zone, name string) {
	s.Do(func() { delete(s.instances[zone], name) })
}

// Aliases returns the alias ranges of an instance.
func (s *Server) Aliases(zone, name string) (all []string) {
	s.Do(func() {
		for _, a := range s.instances[zone][name].NetworkInterfaces[0].AliasIPRanges {
			all = append(all, a.IPCidrRange)
		}
	})
	return all
}

// Asked returns how often an action was asked for; "" counts all.
func (s *Server) Asked(action string) (n int) {
	s.Do(func() {
		for _, a := range s.asked {
			if action == "" || a == action {
				n++
			}
		}
	})
	return n
}

// Queries returns what was asked for an action, in full.
func (s *Server) Queries(action string) (all []string) {
	s.Do(func() {
		for _, q := range s.queries {
			if rest, is := strings.CutPrefix(q, action+" "); is {
				all = append(all, rest)
			}
		}
	})
	return all
}

// routes returns what the server serves.
func (s *Server) routes() *http.ServeMux {
	mux := http.NewServeMux()
	const zone = "/compute/v1/projects/{project}/zones/{zone}/"
	api := func(pattern, action string, serve func(*http.Request) (any, *Fault)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, action, serve) })
	}
	api("GET "+zone+"instances", "instances.list", s.list)
	api("GET "+zone+"instances/{instance}", "instances.get", s.get)
	api("PATCH "+zone+"instances/{instance}/updateNetworkInterface", "instances.updateNetworkInterface", s.update)
	api("GET "+zone+"operations/{operation}", "zoneOperations.get", s.operation)
	const project = "/compute/v1/projects/{project}"
	api("GET "+project+"/aggregated/instances", "instances.aggregatedList", s.listAll)
	api("GET "+project+"/global/routes", "routes.list", s.listRoutes)
	api("GET "+project+"/global/routes/{route}", "routes.get", s.getRoute)
	api("POST "+project+"/global/routes", "routes.insert", s.insertRoute)
	api("DELETE "+project+"/global/routes/{route}", "routes.delete", s.deleteRoute)
	api("GET "+project+"/global/operations", "globalOperations.list", s.listOperations)
	api("GET "+project+"/global/operations/{operation}", "globalOperations.get", s.operation)
	api("POST "+project+"/global/operations/{operation}/wait", "globalOperations.wait", s.wait)
	api("POST "+zone+"operations/{operation}/wait", "zoneOperations.wait", s.wait)
	mux.HandleFunc("GET /computeMetadata/v1/", s.metadata)
	mux.HandleFunc("POST /token", s.token)
	return mux
}

// serve serves one request of the API.
func (s *Server) serve(w http.ResponseWriter, r *http.Request, action string, serve func(*http.Request) (any, *Fault)) {
	var fault *Fault
	var latency time.Duration
	lose, garbage := false, ""
	s.Do(func() {
		latency = s.Latency
		s.asked = append(s.asked, action)
		s.queries = append(s.queries, action+" "+r.URL.String())
		if s.Refuse != nil {
			fault = s.Refuse(action)
		}
		lose = s.Lose != nil && s.Lose(action)
		if s.Garble != nil {
			garbage = s.Garble(action)
		}
	})
	<-time.After(latency / 2)
	var answer any
	switch {
	case fault != nil:
	case r.Header.Get("Authorization") != "Bearer "+Token:
		fault = &Fault{Code: 401, Reason: "authError", Message: "Request had invalid authentication credentials."}
	case r.PathValue("project") != Project:
		fault = &Fault{Code: 403, Reason: "forbidden", Message: "Required '" + action + "' permission for 'projects/" + r.PathValue("project") + "'"}
	default:
		answer, fault = serve(r)
	}
	<-time.After(latency - latency/2)
	if lose {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	if fault != nil {
		if fault.After != "" {
			w.Header().Set("Retry-After", fault.After)
		}
		w.WriteHeader(fault.Code)
		answer = map[string]any{"error": map[string]any{
			"code": fault.Code, "message": fault.Message,
			"errors": []map[string]string{{"message": fault.Message, "domain": "global", "reason": fault.Reason}},
		}}
	}
	if fault == nil && garbage != "" {
		_, _ = io.WriteString(w, garbage)
		return
	}
	if err := json.NewEncoder(w).Encode(answer); err != nil && r.Context().Err() == nil {
		s.t.Error(err)
	}
}

// metadata is the metadata server.
func (s *Server) metadata(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Metadata-Flavor") != "Google" {
		http.Error(w, "missing Metadata-Flavor", http.StatusForbidden)
		return
	}
	w.Header().Set("Metadata-Flavor", "Google")
	switch path := strings.TrimPrefix(r.URL.Path, "/computeMetadata/v1/"); path {
	case "project/project-id":
		fmt.Fprint(w, Project)
	case "instance/network-interfaces/0/network":
		fmt.Fprint(w, s.Network)
	case "instance/service-accounts/default/token":
		s.handOut(w)
	case "universe/universe-domain", "universe/universe_domain":
		fmt.Fprint(w, "googleapis.com")
	default:
		http.NotFound(w, r)
	}
}

// token is the token server of keys.
func (s *Server) token(w http.ResponseWriter, r *http.Request) {
	if parts := strings.Split(r.FormValue("assertion"), "."); len(parts) != 3 {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"error":"invalid_grant","error_description":"the assertion `+r.FormValue("assertion")+` is no JWT"}`)
		return
	}
	s.handOut(w)
}

func (s *Server) handOut(w http.ResponseWriter) {
	s.Do(func() { s.Tokens++ })
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"access_token": Token, "expires_in": int(time.Hour / time.Second), "token_type": "Bearer"})
}

// sorted returns the instances of a zone by name.
func (s *Server) sorted(zone string) (all []*Instance) {
	for _, i := range s.instances[zone] {
		all = append(all, i)
	}
	slices.SortFunc(all, func(a, b *Instance) int { return strings.Compare(a.Name, b.Name) })
	return all
}
