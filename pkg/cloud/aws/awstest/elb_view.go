package awstest

import (
	"fmt"
	"maps"
	"net/netip"
)

// Balancer is a network load balancer as a test sees it, without delays and faults.
type Balancer struct {
	ARN, Name, Host, Scheme, Family, State, VPC string
	Subnets, Groups                             []string
	Public                                      []netip.Addr // one a subnet, the zero address where there is none
	Tags, Attributes                            map[string]string
	Listeners                                   []Listener
}

// Listener is a port of a load balancer.
type Listener struct {
	ARN, Protocol, TargetGroup, Certificate, Policy string
	Port                                            int
	Attributes                                      map[string]string
}

// TargetGroup is a target group as a test sees it.
type TargetGroup struct {
	ARN, Name, Protocol, Kind, Family, VPC string
	Port                                   int
	Check                                  HealthCheck
	Tags, Attributes                       map[string]string
	Targets                                []Target // those that are not on their way out
}

// HealthCheck is how a target group checks its targets. Path and Codes are for HTTP.
type HealthCheck struct {
	Protocol, Port, Path, Codes           string
	Interval, Timeout, Healthy, Unhealthy int
}

// Target is a registered target: an instance or an address.
type Target struct {
	ID   string
	Port int
	// Health is the state that a describe shows.
	Health string
}

func (m *meta) tagMap() map[string]string {
	all := make(map[string]string)
	for _, t := range m.tags {
		all[t.key] = t.value
	}
	return all
}

// Balancers returns all load balancers.
func (s *Server) Balancers() []Balancer {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.account(place{Account, Region})
	var all []Balancer
	for _, b := range a.elbs.order {
		v := Balancer{
			ARN: b.id, Name: b.name, Host: b.name + "-" + b.hex + ".elb." + a.region + ".amazonaws.com", Scheme: b.scheme, Family: b.family, State: b.state, VPC: b.vpc.id,
			Groups: groupIDs(b.groups), Tags: b.tagMap(), Attributes: maps.Clone(b.attributes),
		}
		for _, p := range b.places {
			v.Subnets = append(v.Subnets, p.eni.subnet.id)
			v.Public = append(v.Public, p.eni.v4[0].public)
		}
		for _, l := range a.listeners.order {
			if l.of == b {
				v.Listeners = append(v.Listeners, Listener{
					ARN: l.id, Protocol: l.protocol, TargetGroup: l.to[0].group.id, Certificate: l.certificate, Policy: l.policy, Port: l.port, Attributes: maps.Clone(l.attributes),
				})
			}
		}
		all = append(all, v)
	}
	return all
}

// TargetGroups returns all target groups.
func (s *Server) TargetGroups() []TargetGroup {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.account(place{Account, Region})
	r := &request{account: a, now: s.now(), set: s.settings}
	var all []TargetGroup
	for _, g := range a.targets.order {
		a.prune(g)
		c := g.check
		v := TargetGroup{
			ARN: g.id, Name: g.name, Protocol: g.protocol, Kind: g.kind, Family: g.family, VPC: g.vpc.id, Port: g.port, Tags: g.tagMap(), Attributes: maps.Clone(g.attributes),
			Check: HealthCheck{c.protocol, c.port, c.path, c.codes, c.interval, c.timeout, c.healthy, c.unhealthy},
		}
		for _, t := range g.targets {
			if !t.leaving {
				v.Targets = append(v.Targets, Target{t.id, t.port, r.healthOf(g, t).state})
			}
		}
		all = append(all, v)
	}
	return all
}

// Fail makes targets, instances or addresses, fail their health checks from now on, or
// pass them again.
func (s *Server) Fail(failing bool, ids ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		s.home().failing[id] = failing
	}
}

// AddCertificate makes a certificate, and returns its ARN.
func (s *Server) AddCertificate() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.home()
	h := a.hex()
	arn := a.arn("acm", fmt.Sprintf("certificate/%s-%s-4000-8000-%s", h[:8], h[8:12], "0000000"+h[12:]))
	a.certs[arn] = true
	return arn
}
