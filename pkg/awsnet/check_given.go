package awsnet

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// given reads the rules that the Spec lists.
func (c *checker) given(field string, list []IngressSpec) (rules []Ingress) {
	if len(list) > mostRules {
		c.refuse(field, "%d rules; give at most %d", len(list), mostRules)
		return nil
	}
	sources := 0
	for i, s := range list {
		at := fmt.Sprintf("%s[%d]", field, i)
		sources += len(s.IPv4) + len(s.IPv6) + len(s.GroupIDs) + len(s.GroupRoles)
		if sources > mostSources {
			c.refuse(field, "more than %d sources; AWS allows that many rules in a group, and 60 by default", mostSources)
			return nil
		}
		r, ok := c.rule(at, s.Description, s.Protocol, s.From, s.To, true)
		if !ok {
			continue
		}
		for j, text := range slices.Concat(s.IPv4, s.IPv6) {
			name, k := "cidrBlocks", j
			if j >= len(s.IPv4) {
				name, k = "ipv6CidrBlocks", j-len(s.IPv4)
			}
			p, ok := c.source(fmt.Sprintf("%s.%s[%d]", at, name, k), text)
			if ok && p.Addr().Is4() != (name == "cidrBlocks") {
				c.refuse(fmt.Sprintf("%s.%s[%d]", at, name, k), "%s is of the other family; move it to the other list", p)
			} else if ok && !slices.Contains(r.Blocks, p) {
				r.Blocks = append(r.Blocks, p)
			}
		}
		for j, id := range s.GroupIDs {
			if !isID("sg", id) {
				c.refuse(fmt.Sprintf("%s.sourceSecurityGroupIds[%d]", at, j), "%.60q is no ID of a security group; use one such as sg-0a1b2c3d", id)
			}
			r.GroupIDs = append(r.GroupIDs, id)
		}
		for j, role := range s.GroupRoles {
			if !slices.Contains(roles, Role(role)) {
				c.refuse(fmt.Sprintf("%s.sourceSecurityGroupRoles[%d]", at, j), "%.60q is no role; use one of %s", role, rolesText())
			}
			r.Roles = append(r.Roles, Role(role))
		}
		r.FromNAT = s.FromNAT
		if s.FromNAT && c.net.NAT == NATNone {
			c.refuse(at+".natGatewaysIPsSource", "the network has no NAT gateways; give cidrBlocks, or change natGateways")
		}
		if len(r.Blocks)+len(r.GroupIDs)+len(r.Roles) == 0 && !r.FromNAT {
			c.refuse(at, "has no source; give cidrBlocks, ipv6CidrBlocks, sourceSecurityGroupIds, sourceSecurityGroupRoles or natGatewaysIPsSource")
		}
		rules = append(rules, r)
	}
	return rules
}

// protocols are the protocols that a Spec may name, and their names in AWS's answers.
var protocols = map[string]string{"-1": "-1", "4": "4", "50": "50", "tcp": "tcp", "udp": "udp", "icmp": "icmp", "58": "icmpv6"}

// rule reads which traffic a rule lets in. It reports problems only if report is set,
// because a rule may be read for several groups.
func (c *checker) rule(field, description, protocol string, from, to int64, report bool) (r Ingress, ok bool) {
	refuse := func(name, text string, args ...any) {
		ok = false
		if report {
			c.refuse(field+name, text, args...)
		}
	}
	ok = true
	r = Ingress{Description: description, Protocol: protocols[protocol], From: int(from), To: int(to)}
	if len(description) > 255 || strings.ContainsFunc(description, func(c rune) bool {
		return !strings.ContainsRune(" ._-:/()#,@[]+=&;{}!$*", c) && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z')
	}) {
		refuse(".description", "%.260q; use up to 255 letters, digits, spaces and ._-:/()#,@[]+=&;{}!$*", description)
	}
	low, high := int64(0), int64(65535)
	switch r.Protocol {
	case "":
		refuse(".protocol", "%.20q; use tcp, udp, icmp, 58 (ICMPv6), 4 (IP in IP), 50 (ESP) or -1 (all)", protocol)
		return r, false
	case "icmp", "icmpv6":
		low, high = -1, 255
	case "tcp", "udp":
	default: // without ports
		r.From, r.To = 0, 0
		return r, ok
	}
	if from < low || from > high || to < low || to > high || from > to && high == 65535 {
		refuse(".fromPort", "%d to %d; use %d to %d, the lower one first", from, to, low, high)
	}
	return r, ok
}

// number16 returns a port in digits, or 0.
func number16(s string) int {
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil {
		return 0
	}
	return int(n)
}
