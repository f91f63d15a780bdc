package awsnet

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// mostRules is how many rules a list of a Spec may have. AWS allows 60 in a group.
const mostRules = 200

// mostSources is AWS's limit of rules in a group, which cannot be raised further.
const mostSources = 1000

// ingress computes the rules of the security groups that are ours.
func (c *checker) ingress() {
	n := &c.net
	n.Overrides = make(map[Role]string)
	for _, role := range sortedKeys(c.spec.Network.SecurityGroupOverrides) {
		id, field := c.spec.Network.SecurityGroupOverrides[role], "network.securityGroupOverrides["+role+"]"
		if !slices.Contains(roles, Role(role)) {
			c.refuse(field, "%.60q is no role; use one of %s", role, rolesText())
		}
		if !isID("sg", id) {
			c.refuse(field, "%.60q is no ID of a security group; use one such as sg-0a1b2c3d", id)
		}
		n.Overrides[Role(role)] = id
	}
	n.Ingress = map[Role][]Ingress{RoleControlPlane: c.controlPlaneRules(), RoleNode: c.nodeRules(), RoleLB: c.lbRules()}
	if len(n.Balancers) > 0 {
		n.Ingress[RoleAPIServerLB] = c.apiServerRules()
	}
	if n.Bastion != nil {
		n.Ingress[RoleBastion] = c.bastionRules()
	}
	for role := range n.Overrides {
		delete(n.Ingress, role) // its rules are not ours
	}
	for _, rules := range n.Ingress {
		for i, r := range rules {
			rules[i].Roles = slices.DeleteFunc(slices.Clone(r.Roles), func(source Role) bool { return !n.has(source) })
		}
	}
}

// has reports whether a network has a security group for a role.
func (n Network) has(r Role) bool {
	_, ours := n.Ingress[r]
	return ours || n.Overrides[r] != ""
}

func rolesText() string {
	var words []string
	for _, r := range roles {
		words = append(words, string(r))
	}
	return strings.Join(words, ", ")
}

// usualPort is the port of API servers unless a Spec has another one.
const usualPort = 6443

// apiPort returns the port of the API servers.
func (c *checker) apiPort() int {
	if p := c.spec.APIPort; p > 0 && p < 1<<16 {
		return p
	}
	return usualPort
}

func (c *checker) controlPlaneRules() []Ingress {
	rules := append(c.cniRules(RoleControlPlane),
		Ingress{Description: "Kubernetes API", Protocol: "tcp", From: c.apiPort(), To: c.apiPort(), Roles: []Role{RoleAPIServerLB, RoleControlPlane, RoleNode}},
		Ingress{Description: "etcd", Protocol: "tcp", From: 2379, To: 2379, Roles: []Role{RoleControlPlane}},
		Ingress{Description: "etcd peer", Protocol: "tcp", From: 2380, To: 2380, Roles: []Role{RoleControlPlane}},
		Ingress{Description: "Kubelet API", Protocol: "tcp", From: 10250, To: 10250, Roles: []Role{RoleControlPlane, RoleNode}},
	)
	for _, f := range c.net.Balancers {
		for _, p := range f.Ports {
			if p.Port != c.apiPort() {
				rules = append(rules, Ingress{Description: fmt.Sprintf("Load balancer, port %d", p.Port), Protocol: "tcp", From: p.Port, To: p.Port, Roles: []Role{RoleAPIServerLB}})
			}
			if check := number16(p.Health.Port); check != 0 && check != p.Port {
				rules = append(rules, Ingress{Description: "Health check of the load balancer", Protocol: "tcp", From: check, To: check, Roles: []Role{RoleAPIServerLB}})
			}
		}
	}
	return append(append(rules, c.ssh()...), c.given("network.additionalControlPlaneIngressRules", c.spec.Network.ControlPlaneIngress)...)
}

func (c *checker) nodeRules() []Ingress {
	rules := append(c.cniRules(RoleNode),
		Ingress{Description: "Node Port Services", Protocol: "tcp", From: 30000, To: 32767, Blocks: c.blocks("network.nodePortIngressRuleCidrBlocks", c.spec.Network.NodePortBlocks)},
		Ingress{Description: "Kubelet API", Protocol: "tcp", From: 10250, To: 10250, Roles: []Role{RoleControlPlane, RoleNode}},
	)
	return append(append(rules, c.ssh()...), c.given("network.additionalNodeIngressRules", c.spec.Network.NodeIngress)...)
}

func (c *checker) ssh() []Ingress {
	return []Ingress{{Description: "SSH", Protocol: "tcp", From: 22, To: 22, Roles: []Role{RoleBastion}}}
}

// cniRules returns the Spec's rules or, without any, those that tulle needs: for
// tunnels, and between nodes for all traffic of pods that is routed without a tunnel.
// Nodes reach the control plane only by tunnels, so that pods cannot connect to its
// etcd.
func (c *checker) cniRules(role Role) (rules []Ingress) {
	both := []Role{RoleControlPlane, RoleNode}
	if cni := c.spec.Network.CNI; cni != nil {
		if len(cni.Ingress) > mostRules && role == RoleNode {
			c.refuse("network.cni.cniIngressRules", "%d rules; give at most %d", len(cni.Ingress), mostRules)
		}
		for i, r := range cni.Ingress[:min(len(cni.Ingress), mostRules)] {
			field := fmt.Sprintf("network.cni.cniIngressRules[%d]", i)
			if rule, ok := c.rule(field, r.Description, r.Protocol, r.From, r.To, role == RoleNode); ok {
				rule.Roles = both
				rules = append(rules, rule)
			}
		}
		return rules
	}
	if role == RoleNode {
		return []Ingress{{Description: "Pods (tulle)", Protocol: "-1", Roles: both}}
	}
	return []Ingress{
		{Description: "VXLAN (tulle)", Protocol: "udp", From: 8472, To: 8472, Roles: both},
		{Description: "WireGuard (tulle)", Protocol: "udp", From: 51820, To: 51821, Roles: both},
		{Description: "Ping (tulle)", Protocol: "icmp", From: -1, To: -1, Roles: both},
	}
}

// apiServerRules returns the rules of the balancers. If the Spec has none, every
// address may connect.
func (c *checker) apiServerRules() (rules []Ingress) {
	api := Ingress{Description: "Kubernetes API", Protocol: "tcp", From: c.apiPort(), To: c.apiPort()}
	restricted := false
	for i, b := range []*BalancerSpec{c.spec.Balancer, c.spec.Secondary} {
		if b != nil && len(b.Ingress) > 0 {
			restricted = true
			rules = append(rules, c.given([]string{"controlPlaneLoadBalancer", "secondaryControlPlaneLoadBalancer"}[i]+".ingressRules", b.Ingress)...)
		}
	}
	var ports []int
	for _, f := range c.net.Balancers {
		for _, p := range f.Ports {
			if !slices.Contains(ports, p.Port) {
				ports = append(ports, p.Port)
			}
		}
	}
	slices.Sort(ports)
	if !restricted {
		for _, p := range ports {
			api.From, api.To, api.Blocks = p, p, c.anywhere()
			if p != c.apiPort() {
				api.Description = fmt.Sprintf("Port %d", p)
			}
			rules = append(rules, api)
		}
		return rules
	}
	// Kubelets connect through NAT gateways, or from inside the VPC.
	api.FromNAT = c.net.NAT != NATNone && slices.ContainsFunc(c.net.Balancers, func(f Front) bool { return f.Scheme == InternetFacing })
	if c.net.IPv4.IsValid() {
		api.Blocks = append([]netip.Prefix{c.net.IPv4}, c.net.Secondary...)
	}
	return append(rules, api)
}

// lbRules returns the rules of the control plane's instances. They admit balancers that
// keep the client's address.
func (c *checker) lbRules() (rules []Ingress) {
	for _, f := range c.net.Balancers {
		blocks := append([]netip.Prefix{c.net.IPv4}, c.net.Secondary...)
		if f.Preserve {
			blocks = c.anywhere()
		}
		blocks = slices.DeleteFunc(blocks, func(p netip.Prefix) bool { return !p.IsValid() })
		for _, p := range f.Ports {
			if len(blocks) > 0 {
				rules = append(rules, Ingress{Description: fmt.Sprintf("Load balancer to the control plane, port %d", p.Port), Protocol: "tcp", From: p.Port, To: p.Port, Blocks: blocks})
			}
		}
	}
	return rules
}

// bastionRules returns the rules of the bastion's group.
func (c *checker) bastionRules() []Ingress {
	b := c.spec.Bastion
	if b.DisableIngress {
		return []Ingress{}
	}
	return []Ingress{{Description: "SSH", Protocol: "tcp", From: 22, To: 22, Blocks: c.blocks("bastion.allowedCIDRBlocks", b.AllowedBlocks)}}
}

// anywhere returns the blocks of all addresses.
func (c *checker) anywhere() []netip.Prefix {
	all := []netip.Prefix{netip.PrefixFrom(netip.IPv4Unspecified(), 0)}
	if c.net.IPv6 {
		all = append(all, netip.PrefixFrom(netip.IPv6Unspecified(), 0))
	}
	return all
}

// blocks reads blocks of addresses. Without any, it returns the blocks of all
// addresses.
func (c *checker) blocks(field string, texts []string) (all []netip.Prefix) {
	if len(texts) == 0 {
		return c.anywhere()
	}
	if len(texts) > mostRules {
		c.refuse(field, "%d blocks; give at most %d", len(texts), mostRules)
		return nil
	}
	for i, text := range texts {
		if p, ok := c.source(fmt.Sprintf("%s[%d]", field, i), text); ok && !slices.Contains(all, p) {
			all = append(all, p)
		}
	}
	return all
}

// source reads a block of addresses from which traffic may come.
func (c *checker) source(field, text string) (netip.Prefix, bool) {
	p, err := netip.ParsePrefix(text)
	switch {
	case err != nil || p.Addr().Is4In6() || p.Addr().Zone() != "":
		c.refuse(field, "%.60q is no block of addresses; use one such as 192.0.2.0/24", text)
	case p.Masked() != p:
		c.refuse(field, "%s has host bits; use %s", p, p.Masked())
	default:
		return p, true
	}
	return netip.Prefix{}, false
}
