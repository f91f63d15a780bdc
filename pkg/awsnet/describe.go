package awsnet

import (
	"fmt"
	"net/netip"
	"strings"
)

// hostPrefix returns the block of one address.
func hostPrefix(ip netip.Addr) netip.Prefix { return netip.PrefixFrom(ip, ip.BitLen()) }

// describe returns a text about an object for people: its key, and the values that the
// key does not contain.
func describe(o Object) string {
	text := o.Key().String()
	switch o := o.(type) {
	case VPC:
		text += " " + o.IPv4.String()
	case Subnet:
		if o.IPv4.IsValid() {
			text += " " + o.IPv4.String()
		}
		if o.IPv6.Prefix.IsValid() {
			text += " " + o.IPv6.Prefix.String()
		} else if o.IPv6.Nth > 0 {
			text += fmt.Sprintf(" with /64 number %d of the VPC's IPv6", o.IPv6.Nth)
		}
		text += " in " + o.Zone
	case NATGateway:
		text += fmt.Sprintf(" in %s with %s", o.Subnet, o.Address)
	case Route:
		text += " to " + o.Via.String()
	case Association:
		text += " with " + o.Table.String()
	case SecurityGroup:
		text += " " + o.Title
	case Rule:
		if o.Description != "" {
			text += " (" + clip(o.Description) + ")"
		}
	case Balancer:
		text += fmt.Sprintf(" %s, %s", o.Title, o.Scheme)
	case TargetGroup:
		text += " " + o.Title
	case Bastion:
		text += " " + o.Type
	}
	return text
}

// Difference returns for people what a step changes: what there is before it, and after it.
func (s Step) Difference() (before, after string) {
	rest := func(o Object) string { return strings.TrimSpace(strings.TrimPrefix(describe(o), o.Key().String())) }
	switch s.Verb {
	case Create:
		return "", rest(s.Want)
	case Delete:
		return rest(s.Have), ""
	case Wait:
		return "", ""
	}
	var was, is []string
	if s.Have != s.Want {
		for _, d := range compare(s.Have, s.Want) {
			was, is = append(was, fmt.Sprintf("%s %v", d.name, d.have)), append(is, fmt.Sprintf("%s %v", d.name, d.want))
		}
	}
	if len(s.Tags) > 0 {
		var pairs []string
		for _, k := range sortedKeys(s.Tags) {
			pairs = append(pairs, k+"="+clip(s.Tags[k]))
		}
		was, is = append(was, "tags as they are"), append(is, "with the tags "+strings.Join(pairs, ", "))
	}
	return strings.Join(was, "; "), strings.Join(is, "; ")
}

// Text describes an object for people: its kind, ID and name, and the Service it was made for.
func (f Found) Text() string { return foreignText(f) }

// difference returns a text for people about what a change changes.
func difference(have Found, want Object, tags map[string]string) string {
	text := fmt.Sprintf("%s %s", want.Key(), have.ID)
	var parts []string
	if have.Object != want {
		parts = append(parts, fields(have.Object, want)...)
	}
	if len(tags) > 0 {
		parts = append(parts, "tags "+strings.Join(sortedKeys(tags), ", "))
	}
	if len(parts) > 0 {
		text += ": " + strings.Join(parts, "; ")
	}
	return text
}

// fields returns a text for people about the fields that differ.
func fields(have, want Object) (all []string) {
	for _, d := range compare(have, want) {
		if d.name == blackhole {
			all = append(all, blackhole)
			continue
		}
		all = append(all, fmt.Sprintf("%s %v instead of %v", d.name, d.want, d.have))
	}
	if _, is := want.(Tagging); is {
		all = append(all, "tags")
	}
	return all
}

// fieldChange is a field that differs.
type fieldChange struct {
	name       string
	have, want any
}

const blackhole = "it leads nowhere"

// compare returns the fields that differ.
func compare(have, want Object) (all []fieldChange) {
	say := func(name string, a, b any) {
		if a != b {
			all = append(all, fieldChange{name, a, b})
		}
	}
	switch w := want.(type) {
	case VPC:
		h := have.(VPC)
		say("block", h.IPv4, w.IPv4)
		say("DNS support", h.DNSSupport, w.DNSSupport)
		say("DNS hostnames", h.DNSHostnames, w.DNSHostnames)
	case Block:
		h := have.(Block)
		say("pool", h.Pool, w.Pool)
		say("block", h.Prefix, w.Prefix)
	case InternetGateway:
		say("attached to", have.(InternetGateway).VPC, w.VPC)
	case EgressGateway:
		say("in", have.(EgressGateway).VPC, w.VPC)
	case CarrierGateway:
		say("in", have.(CarrierGateway).VPC, w.VPC)
	case Subnet:
		h := have.(Subnet)
		say("in", h.VPC, w.VPC)
		say("zone", h.Zone, w.Zone)
		say("block", h.IPv4, w.IPv4)
		say("IPv6", h.IPv6.text(), w.IPv6.text())
		say("public addresses", h.PublicIPs, w.PublicIPs)
		say("addresses of IPv6", h.AssignIPv6, w.AssignIPv6)
		say("DNS64", h.DNS64, w.DNS64)
		say("host names", h.HostnameType, w.HostnameType)
	case RouteTable:
		say("in", have.(RouteTable).VPC, w.VPC)
	case Route:
		h := have.(Route)
		say("to", h.Via, w.Via)
		say(blackhole, h.Blackhole, false)
	case Association:
		say("table", have.(Association).Table, w.Table)
	case Endpoint:
		h := have.(Endpoint)
		say("in", h.VPC, w.VPC)
		say("tables", h.Tables, w.Tables)
	case SecurityGroup:
		say("in", have.(SecurityGroup).VPC, w.VPC)
	case Rule:
		say("description", have.(Rule).Description, w.Description)
	case Balancer:
		h := have.(Balancer)
		say("scheme", h.Scheme, w.Scheme)
		say("dual-stack", h.DualStack, w.DualStack)
		say("cross-zone", h.CrossZone, w.CrossZone)
		say("subnets", h.Subnets, w.Subnets)
		say("security groups", h.Groups, w.Groups)
	case TargetGroup:
		h := have.(TargetGroup)
		say("in", h.VPC, w.VPC)
		say("port", h.Port, w.Port)
		say("IPv6", h.IPv6, w.IPv6)
		say("health check", h.Health, w.Health)
		say("client addresses kept", h.PreserveIP, w.PreserveIP)
		say("connections of unhealthy targets ended", h.EndUnhealthy, w.EndUnhealthy)
	case Listener:
		say("to", have.(Listener).Group, w.Group)
	}
	return all
}

func (s Slice) text() string {
	switch {
	case s.Prefix.IsValid():
		return s.Prefix.String()
	case s.Nth > 0:
		return fmt.Sprintf("/64 number %d", s.Nth)
	}
	return "none"
}

// conflict returns the problem of an object that a call cannot change.
func conflict(have Found, want Object) string {
	fix := "restore the spec, or delete it in AWS"
	switch want.(type) {
	case VPC:
		fix = "restore network.vpc.cidrBlock; other blocks belong in secondaryCidrBlocks"
	case Subnet:
		fix = "restore the spec, or list the subnets with the blocks that they have; a subnet with another id is a new one"
	case Balancer:
		fix = "restore the spec; the endpoint of a cluster that runs must not move"
	}
	return fmt.Sprintf("%s has %s, which cannot be changed; %s", have.ID, strings.Join(fields(have.Object, want), "; "), fix)
}
