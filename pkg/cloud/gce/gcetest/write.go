package gcetest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"time"
)

// operation is a change that is made, or to be made.
type operation struct {
	Kind   string          `json:"kind"`
	Name   string          `json:"name"`
	Zone   string          `json:"zone,omitempty"`
	Type   string          `json:"operationType"`
	Status string          `json:"status"`
	Error  *operationError `json:"error,omitempty"`
	Code   int             `json:"httpErrorStatusCode,omitempty"`
	Says   string          `json:"httpErrorMessage,omitempty"`

	make func() (code, message string)
	done chan struct{} // closed when it has ended
}

type operationError struct {
	Errors []operationFault `json:"errors"`
}

type operationFault struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

var uuid = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)

// update begins to replace the alias ranges of an interface.
func (s *Server) update(r *http.Request) (answer any, fault *Fault) {
	query := r.URL.Query()
	id := query.Get("requestId")
	if id != "" && !uuid.MatchString(id) {
		return nil, &Fault{Code: 400, Reason: "invalid", Message: "Invalid value for field 'requestId': '" + id + "'. Must be a valid UUID."}
	}
	var body Interface
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		return nil, &Fault{Code: 400, Reason: "parseError", Message: "Parse Error"}
	}
	s.Do(func() {
		if o := s.operations[s.requests[id]]; id != "" && o != nil {
			answer = *o
			return
		}
		i := s.instances[r.PathValue("zone")][r.PathValue("instance")]
		if i == nil {
			fault = notFound(r)
			return
		}
		d := i.device(query.Get("networkInterface"))
		switch {
		case d == nil:
			fault = &Fault{Code: 400, Reason: "invalid", Message: "Invalid value for field 'networkInterface': '" + query.Get("networkInterface") + "'."}
		case body.Fingerprint == "":
			fault = &Fault{Code: 400, Reason: "required", Message: "Required field 'resource.fingerprint' not specified"}
		case body.Fingerprint != d.Fingerprint:
			fault = &Fault{Code: 412, Reason: "conditionNotMet", Message: "Fingerprint mismatch."}
		}
		if fault != nil {
			return
		}
		o := s.begin("updateNetworkInterface", func() (string, string) { return s.replace(i, d.Name, body.AliasIPRanges) })
		if o.Zone = i.Zone; id != "" {
			s.requests[id] = o.Name
		}
		answer = *o
	})
	return answer, fault
}

// begin begins an operation.
func (s *Server) begin(kind string, work func() (code, message string)) *operation {
	o := &operation{
		Kind: "compute#operation", Name: fmt.Sprintf("operation-%d", len(s.operations)+1),
		Type: kind, Status: "RUNNING", done: make(chan struct{}), make: work,
	}
	s.operations[o.Name] = o
	switch {
	case s.Late:
	case s.Lasts > 0:
		time.AfterFunc(s.Lasts, func() { s.Do(func() { s.end(o) }) })
	default:
		s.end(o)
	}
	return o
}

func (i *Instance) device(name string) *Interface {
	for n := range i.NetworkInterfaces {
		if i.NetworkInterfaces[n].Name == name {
			return &i.NetworkInterfaces[n]
		}
	}
	return nil
}

// replace replaces the alias ranges of an interface, or returns why not.
func (s *Server) replace(i *Instance, device string, aliases []AliasRange) (code, message string) {
	for _, a := range aliases {
		p, err := netip.ParsePrefix(a.IPCidrRange)
		if err != nil || p != p.Masked() {
			return "INVALID_FIELD_VALUE", "Invalid value for field 'resource.aliasIpRanges': '" + a.IPCidrRange + "'."
		}
		if in, known := s.Secondary[a.SubnetworkRangeName]; s.Secondary != nil && (!known || !in.Contains(p.Addr()) || in.Bits() > p.Bits()) {
			return "INVALID_FIELD_VALUE", "Invalid value for field 'resource.ipCidrRange': '" + a.IPCidrRange + "'. It is not in the range '" + a.SubnetworkRangeName + "'."
		}
		for _, zone := range s.instances {
			for _, other := range zone {
				for _, d := range other.NetworkInterfaces {
					if other != i && slices.ContainsFunc(d.AliasIPRanges, func(o AliasRange) bool {
						q, err := netip.ParsePrefix(o.IPCidrRange)
						return err == nil && q.Overlaps(p)
					}) {
						return "IP_IN_USE_BY_ANOTHER_RESOURCE", "IP '" + a.IPCidrRange + "' is already being used by another resource."
					}
				}
			}
		}
	}
	i.device(device).AliasIPRanges = aliases
	s.touch(i)
	return "", ""
}

// end makes the change of an operation, and ends it.
func (s *Server) end(o *operation) {
	if o.Status == "DONE" {
		return
	}
	code, message := s.Fails, "The operation was made to fail."
	if code == "" {
		code, message = o.make()
	}
	o.Status = "DONE"
	close(o.done)
	if code != "" {
		o.Error = &operationError{[]operationFault{{code, message}}}
		o.Code, o.Says = http.StatusBadRequest, "BAD REQUEST"
	}
}

// Release ends all operations, and lets later ones end at once.
func (s *Server) Release() {
	s.Do(func() {
		s.Late = false
		for _, o := range s.operations {
			s.end(o)
		}
	})
}

func (s *Server) operation(r *http.Request) (answer any, fault *Fault) {
	s.Do(func() {
		o := s.operations[r.PathValue("operation")]
		if o == nil {
			fault = &Fault{Code: 404, Reason: "notFound", Message: "The resource 'operations/" + r.PathValue("operation") + "' was not found"}
			return
		}
		answer = *o
	})
	return answer, fault
}

// wait answers when the operation has ended, or the client has gone.
func (s *Server) wait(r *http.Request) (any, *Fault) {
	var done chan struct{}
	s.Do(func() {
		if o := s.operations[r.PathValue("operation")]; o != nil && !s.Idle {
			done = o.done
		}
	})
	if done != nil {
		select {
		case <-done:
		case <-r.Context().Done():
		}
	}
	return s.operation(r)
}
