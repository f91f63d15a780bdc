package awsnet

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strconv"
)

// The names of the load balancers of the API servers.
const (
	PrimaryBalancer   = "apiserver"
	secondaryBalancer = "apiserver-secondary"
)

// balancers checks the load balancers of the API servers.
func (c *checker) balancers() {
	first := c.spec.Balancer
	if first == nil {
		first = &BalancerSpec{}
	}
	c.balancer("controlPlaneLoadBalancer", PrimaryBalancer, InternetFacing, *first)
	if s := c.spec.Secondary; s != nil {
		if len(c.net.Balancers) == 0 {
			c.refuse("secondaryControlPlaneLoadBalancer", "there is no first one; give controlPlaneLoadBalancer, or remove the second")
		}
		c.balancer("secondaryControlPlaneLoadBalancer", secondaryBalancer, Internal, *s)
	}
	if b := c.net.Balancers; len(b) == 2 && b[0].Title == b[1].Title {
		c.refuse("secondaryControlPlaneLoadBalancer.name", "%q is also that of the first; choose another name", b[1].Title)
	}
}

func (c *checker) balancer(field, name string, scheme Scheme, b BalancerSpec) {
	switch b.Type {
	case "", "nlb":
	case "disabled":
		return
	default:
		c.refuse(field+".loadBalancerType", "%.60q: load balancers of the API servers are network load balancers; use nlb, or disabled for none", b.Type)
		return
	}
	f := Front{Name: name, Title: title(c.net.Owner, name), Scheme: scheme, CrossZone: b.CrossZone, Preserve: b.PreserveClientIP}
	if b.Name != nil && *b.Name != "" {
		f.Title = *b.Name
		if !titleText.MatchString(f.Title) || len(f.Title) > 9 && f.Title[:9] == "internal-" {
			c.refuse(field+".name", "%.60q; use up to 32 letters, digits and dashes, not internal- at the beginning", f.Title)
		}
	}
	if b.Scheme != nil && *b.Scheme != "" {
		if f.Scheme = Scheme(*b.Scheme); f.Scheme != InternetFacing && f.Scheme != Internal {
			c.refuse(field+".scheme", "%.60q; use %s or %s", *b.Scheme, InternetFacing, Internal)
		}
	}
	for i, id := range b.SecurityGroups {
		if !isID("sg", id) {
			c.refuse(fmt.Sprintf("%s.additionalSecurityGroups[%d]", field, i), "%.60q is no ID of a security group; use one such as sg-0a1b2c3d", id)
		}
		f.GroupIDs = append(f.GroupIDs, id)
	}
	if len(f.GroupIDs) > 4 {
		c.refuse(field+".additionalSecurityGroups", "%d groups; AWS allows 5 with the balancer's own, so give at most 4", len(f.GroupIDs))
	}
	c.places(field, b, &f)
	f.DualStack = c.net.IPv6 && len(f.SubnetIDs) == 0 && !slices.ContainsFunc(f.Subnets, func(i int) bool { return !c.net.Subnets[i].HasIPv6 })
	c.ports(field, b, &f)
	c.net.Balancers = append(c.net.Balancers, f)
}

// title returns a name for an object in AWS that must be unique in an account's region.
func title(o Owner, name string) string {
	sum := sha256.Sum256([]byte(o.UID + "/" + o.Cluster + "/" + name))
	clean := regexp.MustCompile(`[^A-Za-z0-9]+`).ReplaceAllString(o.Cluster, "-")
	return clean[:min(len(clean), 13)] + "-" + name[:min(len(name), 9)] + "-" + hex.EncodeToString(sum[:4])
}

// places chooses the subnets of a balancer, one in each zone.
func (c *checker) places(field string, b BalancerSpec, f *Front) {
	zones := make(map[string]string)
	for i, name := range b.Subnets {
		at := fmt.Sprintf("%s.subnets[%d]", field, i)
		j := slices.IndexFunc(c.net.Subnets, func(n Net) bool {
			return n.Name == name || n.ID == name || c.spec.resource(n.Name) == name
		})
		switch {
		case j >= 0 && !c.net.Subnets[j].fits():
			c.refuse(at, "%.120q is in no availability zone, or only for pods; use another subnet", name)
		case j >= 0 && f.Scheme == InternetFacing && !c.net.Subnets[j].Public:
			c.refuse(at, "%.120q is private, and the balancer is %s; use a public subnet, or scheme: %s", name, f.Scheme, Internal)
		case j >= 0 && zones[c.net.Subnets[j].Zone] != "":
			c.refuse(at, "%.120q and %.120q are both in %s; use one subnet in each zone", name, zones[c.net.Subnets[j].Zone], c.net.Subnets[j].Zone)
		case j >= 0:
			zones[c.net.Subnets[j].Zone] = name
			f.Subnets = append(f.Subnets, j)
		case isID("subnet", name):
			f.SubnetIDs = append(f.SubnetIDs, name)
		default:
			c.refuse(at, "%.120q is no subnet of network.subnets and no ID; use one of them", name)
		}
	}
	if len(b.Subnets) > 0 {
		return
	}
	choose := func(public bool) {
		for i, n := range c.net.Subnets {
			if n.fits() && n.Public == public && zones[n.Zone] == "" {
				zones[n.Zone] = n.Name
				f.Subnets = append(f.Subnets, i)
			}
		}
	}
	if f.Scheme == Internal {
		choose(false)
	}
	if len(f.Subnets) == 0 {
		choose(true)
	}
	switch {
	case len(f.Subnets) > 0 || len(c.net.Subnets) == 0: // the lack of subnets is a problem already
	case f.Scheme == InternetFacing:
		c.refuse(field, "the network has no public subnet in an availability zone for a public load balancer; add one with isPublic: true, or set scheme: %s", Internal)
	default:
		c.refuse(field, "the network has no subnet in an availability zone for a load balancer; add one, or set loadBalancerType: disabled")
	}
}

// resource returns the AWS ID that a Spec has for a subnet, or "".
func (s Spec) resource(name string) string {
	for _, n := range s.Network.Subnets {
		if n.ID == name {
			return n.ResourceID
		}
	}
	return ""
}

// mostListeners is AWS's limit for a network load balancer.
const mostListeners = 50

// ports reads the listeners of a balancer.
func (c *checker) ports(field string, b BalancerSpec, f *Front) {
	protocol := "TCP"
	if p := b.HealthCheckProtocol; p != nil && *p != "" {
		switch protocol = *p; protocol {
		case "TCP", "HTTP", "HTTPS":
		case "SSL", "TLS": // a network load balancer has only connections and HTTP
			protocol = "TCP"
		default:
			c.refuse(field+".healthCheckProtocol", "%.20q; use TCP, HTTP or HTTPS", *p)
		}
	}
	h := Health{Protocol: protocol, Port: strconv.Itoa(c.apiPort()), Interval: 5, Timeout: 4, Healthy: 2, Unhealthy: 6}
	if protocol != "TCP" {
		h.Path = "/readyz"
	}
	f.Ports = append(f.Ports, Port{Port: c.apiPort(), IPv6: c.family(field+".targetGroupIPType", *f, b.TargetFamily), Health: c.health(field+".healthCheck", h, b.HealthCheck)})
	if len(b.Listeners) > mostListeners-1 {
		c.refuse(field+".additionalListeners", "%d listeners; AWS allows %d beside that of port %d", len(b.Listeners), mostListeners-1, c.apiPort())
		return
	}
	for i, l := range b.Listeners {
		at := fmt.Sprintf("%s.additionalListeners[%d]", field, i)
		port := int(l.Port)
		if l.Port < 1 || l.Port > 65535 {
			c.refuse(at+".port", "%d; use 1 to 65535", l.Port)
			continue
		}
		if slices.ContainsFunc(f.Ports, func(p Port) bool { return p.Port == port }) {
			c.refuse(at+".port", "%d has a listener already; remove this one", port)
		}
		if l.Protocol != "" && l.Protocol != "TCP" {
			c.refuse(at+".protocol", "%.20q; use TCP", l.Protocol)
		}
		h := Health{Protocol: "TCP", Port: strconv.Itoa(port), Interval: 5, Timeout: 4, Healthy: 2, Unhealthy: 6}
		f.Ports = append(f.Ports, Port{Port: port, IPv6: c.family(at+".targetGroupIPType", *f, l.TargetFamily), Health: c.health(at+".healthCheck", h, l.HealthCheck)})
	}
}

// family reports whether the balancer reaches targets over IPv6, for which it needs
// IPv6 itself. By default it does if all private subnets have IPv6.
func (c *checker) family(field string, f Front, want *string) bool {
	if want != nil && *want != "" {
		if *want != "ipv4" && *want != "ipv6" {
			c.refuse(field, "%.20q; use ipv4 or ipv6", *want)
		}
		if *want == "ipv6" && !c.net.IPv6 {
			c.refuse(field, "ipv6, but the VPC has none; use ipv4, or add network.vpc.ipv6")
		} else if *want == "ipv6" && !f.DualStack {
			c.refuse(field, "ipv6, but a subnet of the load balancer has none; use ipv4, or set isIpv6 for its subnets in network.subnets")
		}
		return *want == "ipv6"
	}
	if !f.DualStack {
		return false
	}
	for _, n := range c.net.Subnets {
		if !n.Public && !n.PodsOnly && n.IPv4.IsValid() && !n.HasIPv6 {
			return false
		}
	}
	return true
}

func (c *checker) health(field string, h Health, s *HealthSpec) Health {
	if s == nil {
		return h
	}
	if s.Protocol != nil && *s.Protocol != "" {
		if h.Protocol = *s.Protocol; h.Protocol != "TCP" && h.Protocol != "HTTP" && h.Protocol != "HTTPS" {
			c.refuse(field+".protocol", "%.20q; use TCP, HTTP or HTTPS", *s.Protocol)
		}
		if h.Path = ""; h.Protocol != "TCP" {
			h.Path = "/readyz"
		}
	}
	if s.Port != nil && *s.Port != "" {
		if h.Port = *s.Port; number16(h.Port) == 0 && h.Port != "traffic-port" {
			c.refuse(field+".port", "%.20q; use a port or traffic-port", *s.Port)
		}
	}
	if s.Path != nil && *s.Path != "" && h.Protocol != "TCP" {
		if h.Path = *s.Path; h.Path[0] != '/' || len(h.Path) > 1024 {
			c.refuse(field+".path", "%.60q; use a path such as /readyz", h.Path)
		}
	}
	for _, n := range []struct {
		name      string
		want      *int64
		set       *int
		low, high int64
	}{{"intervalSeconds", s.Interval, &h.Interval, 5, 300}, {"timeoutSeconds", s.Timeout, &h.Timeout, 2, 120}, {"thresholdCount", s.Healthy, &h.Healthy, 2, 10}, {"unhealthyThresholdCount", s.Unhealthy, &h.Unhealthy, 2, 10}} {
		if n.want == nil {
			continue
		}
		if *n.set = int(*n.want); *n.want < n.low || *n.want > n.high {
			c.refuse(field+"."+n.name, "%d; use %d to %d", *n.want, n.low, n.high)
		}
	}
	if h.Timeout > h.Interval {
		c.refuse(field+".timeoutSeconds", "%d is more than intervalSeconds, %d; lower it", h.Timeout, h.Interval)
	}
	return h
}

var (
	instanceType = regexp.MustCompile(`^[a-z][a-z0-9-]{1,20}\.[a-z0-9-]{2,20}$`)
	armType      = regexp.MustCompile(`^[a-z]+[0-9]+g[a-z]*\.`)
)

// The images of a bastion without an image in the Spec. RunInstances looks them up
// itself.
const (
	defaultImage    = "resolve:ssm:/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-x86_64"
	defaultImageARM = "resolve:ssm:/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-arm64"
)

// bastion checks the bastion.
func (c *checker) bastion() {
	b := c.spec.Bastion
	if !b.Enabled {
		return
	}
	host := BastionHost{Type: orText(b.InstanceType, "t3.micro"), Image: b.AMI, SSHKey: "default"}
	if c.spec.SSHKeyName != nil {
		host.SSHKey = *c.spec.SSHKeyName
	}
	if len(host.SSHKey) > 255 {
		c.refuse("sshKeyName", "%.60q is too long; AWS allows 255 characters", host.SSHKey)
	}
	if !instanceType.MatchString(host.Type) {
		c.refuse("bastion.instanceType", "%.60q is no instance type; use one such as t3.micro", host.Type)
	}
	switch {
	case host.Image == "" && armType.MatchString(host.Type):
		host.Image = defaultImageARM
	case host.Image == "":
		host.Image = defaultImage
	case !isID("ami", host.Image):
		c.refuse("bastion.ami", "%.60q is no image; use one such as ami-0a1b2c3d, or leave it out", host.Image)
	}
	if b.DisableIngress && len(b.AllowedBlocks) > 0 {
		c.refuse("bastion.allowedCIDRBlocks", "has blocks, but disableIngressRules is set; remove one of them")
	}
	if host.Subnet = slices.IndexFunc(c.net.Subnets, func(n Net) bool { return n.Public && n.fits() }); host.Subnet < 0 && len(c.net.Subnets) > 0 {
		c.refuse("bastion.enabled", "the network has no public subnet in an availability zone for it; add one with isPublic: true, or remove the bastion")
	}
	c.net.Bastion = &host
}
