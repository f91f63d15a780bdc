package service

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/cloudbalancer"
)

// Code is how far a Service is. Codes never change.
type Code string

// The codes.
const (
	// Balanced is a Service that has all that it wants.
	Balanced Code = "balanced"
	// Pending is one that is being worked on.
	Pending Code = "pending"
	// Invalid is one with a setting that cannot be carried out.
	Invalid Code = "invalid"
	// Failing is one for which the cloud refuses a change.
	Failing Code = "failing"
	// Leaving is one whose balancer is being removed.
	Leaving Code = "leaving"
	// Other is one of another controller.
	Other Code = "other"
)

// Codes are all codes.
var Codes = []Code{Balanced, Pending, Invalid, Failing, Leaving, Other}

// Row is a Service.
type Row struct {
	Service string // with its namespace
	Code    Code
	// Text says what is wrong or missing, and the fix.
	Text    string
	Host    string
	Targets int
}

// Report is the state of the controller. It shares no memory with it.
type Report struct {
	Counts map[Code]int
	Rows   []Row
	// Balancers and Groups are those of the cluster in the account, and Quota is what the
	// account may have in the region.
	Balancers, Groups int
	Quota             cloud.BalancerQuota
	// Planned is what the last preview found.
	Planned Planned
	// Leftovers are balancers of Services that do not exist.
	Leftovers []cloudbalancer.Leftover
	// Read is when the account was read last, or zero.
	Read    time.Time
	Details Details
}

// Details is how many balancers and target groups of Services there are, and of how many the
// details were read.
type Details struct{ Read, All int }

// Details returns how far the reading of details is.
func (c *Controller) Details() (d Details) {
	for key, s := range c.services {
		if s.wanted() && (c.options.Only == "" || c.options.Only == key) {
			all, unread := c.account.Unread(s.Ref)
			d.Read, d.All = d.Read+all-len(unread), d.All+all
		}
	}
	return d
}

// Waiting returns how many Services wait for something.
func (c *Controller) Waiting() (n int) {
	for _, s := range c.services {
		if code := s.code(); code != Balanced && code != Other {
			n++
		}
	}
	return n
}

// code returns how far a Service is.
func (s *service) code() Code {
	fatal := func(all []cloudbalancer.Problem) bool {
		return slices.ContainsFunc(all, func(p cloudbalancer.Problem) bool { return p.Fatal })
	}
	switch {
	case s.leaving() && s.trouble != "":
		return Failing
	case s.leaving():
		return Leaving
	case !s.wanted():
		return Other
	case fatal(s.wrong) || fatal(s.problems):
		return Invalid
	case s.trouble != "":
		return Failing
	case s.done && s.hasHost():
		return Balanced
	}
	return Pending
}

// text says what is wrong with a Service, and the fix.
func (s *service) text() string {
	var all []string
	if s.trouble != "" {
		all = append(all, s.trouble)
	}
	problems := s.problems
	if len(problems) == 0 {
		problems = s.wrong
	}
	for _, p := range problems {
		all = append(all, p.Text)
	}
	if s.claim.Why != "" {
		all = append(all, s.claim.Why)
	}
	if s.leaving() && !s.Balances && s.gone {
		all = append(all, "nothing of it is ours; remove the finalizer "+Finalizer+" if no other controller does")
	}
	return strings.Join(all, "; ")
}

// Report returns the state of the controller. Call it in the Engine's loop.
func (c *Controller) Report() (r Report) {
	r.Counts = make(map[Code]int)
	for _, key := range c.keys() {
		s := c.services[key]
		code := s.code()
		r.Counts[code]++
		r.Rows = append(r.Rows, Row{Service: key, Code: code, Text: s.text(), Host: cmp.Or(s.host, strings.Join(s.Hosts, ", ")), Targets: s.targets})
	}
	r.Balancers, r.Groups = c.account.Count()
	r.Quota, r.Read, r.Planned, r.Details = c.quota, c.look.at, c.planned, c.Details()
	r.Leftovers = c.leftovers()
	return r
}
