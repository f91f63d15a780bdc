package awstest

import (
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// Launch describes instances to launch. The zero value is one instance in the first default
// subnet.
type Launch struct {
	Count  int
	Subnet string // "" is the default subnet of the first zone
	Type   string // "" is m5.large
	Tags   map[string]string
	// Names are the instances' tags Name, in order. There may be fewer.
	Names []string
	// V6 is the number of IPv6 addresses of each.
	V6 int
	// Private is the private address of a single instance; "" is any.
	Private string
	// Forwards launches instances whose SourceDestCheck is off.
	Forwards bool
}

// Instance is the current state of an instance, for tests. Delays and faults do not affect it.
type Instance struct {
	ID, State, Type, Zone, Subnet, VPC string
	Interface                          string // the primary one
	Name                               string // the private DNS name
	Private, Public                    netip.Addr
	V6                                 []netip.Addr
	Forwards                           bool // SourceDestCheck is off
	Tags                               map[string]string
}

// Route is the current state of a route, for tests. Delays and faults do not affect it.
type Route struct {
	Destination string
	// Target is the ID of the interface or the gateway. Instance is the ID of the
	// interface's instance.
	Target, Instance string
	State, Origin    string
}

// home is the account and region of Env, where tests make objects.
func (s *Server) home() *account { return s.account(place{Account, Region}) }

// Launch launches instances. They run when it returns, unless Settings.Boot is set.
func (s *Server) Launch(l Launch) []Instance {
	count := max(l.Count, 1)
	args := []string{"ImageId", "ami-0123456789abcdef0", "InstanceType", l.Type, "MinCount", itoa(count), "MaxCount", itoa(count)}
	if l.Type == "" {
		args[3] = "m5.large"
	}
	for _, a := range [][2]string{{"SubnetId", l.Subnet}, {"PrivateIpAddress", l.Private}} {
		if a[1] != "" {
			args = append(args, a[0], a[1])
		}
	}
	if l.V6 > 0 {
		args = append(args, "Ipv6AddressCount", itoa(l.V6))
	}
	n := 0
	for key, value := range l.Tags {
		n++
		tag := fmt.Sprintf("TagSpecification.1.Tag.%d.", n)
		args = append(args, "TagSpecification.1.ResourceType", "instance", tag+"Key", key, tag+"Value", value)
	}
	args = dedupe(args)
	s.mu.Lock()
	from := s.home().seq
	s.mu.Unlock()
	s.must("RunInstances", args...)
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.home()
	var made []Instance
	for _, i := range a.instances.order {
		if i.seq <= from {
			continue
		}
		i.enis[0].check = !l.Forwards
		if len(made) < len(l.Names) {
			i.setTag(tag{"Name", l.Names[len(made)]})
		}
		made = append(made, a.show(i))
	}
	return made
}

// dedupe removes parameters that occur again later.
func dedupe(args []string) []string {
	var kept []string
	seen := make(map[string]bool)
	for i := 0; i+1 < len(args); i += 2 {
		if !seen[args[i]] {
			kept = append(kept, args[i], args[i+1])
		}
		seen[args[i]] = true
	}
	return kept
}

// show converts an instance for a test.
func (a *account) show(i *instance) Instance {
	v := Instance{ID: i.id, State: i.state.name, Type: i.itype, Zone: i.zone.name, Name: a.nameOf(i), Tags: make(map[string]string)}
	for _, t := range i.tags {
		v.Tags[t.key] = t.value
	}
	if len(i.enis) > 0 {
		n := i.enis[0]
		v.Subnet, v.VPC = i.subnet.id, i.subnet.vpc.id
		v.Interface, v.Private, v.Public, v.Forwards = n.id, n.v4[0].private, n.v4[0].public, !n.check
		v.V6 = slices.Clone(n.v6)
	}
	return v
}

// Instances returns all instances that a describe could see.
func (s *Server) Instances() []Instance {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.home()
	all := make([]Instance, 0, len(a.instances.order))
	for _, i := range a.instances.order {
		all = append(all, a.show(i))
	}
	return all
}

// Instance returns an instance, or the zero Instance if it does not exist.
func (s *Server) Instance(id string) Instance {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.home()
	if i := a.instances.byID[id]; i != nil {
		return a.show(i)
	}
	return Instance{}
}

// Terminate terminates instances, also protected ones.
func (s *Server) Terminate(ids ...string) {
	s.mu.Lock()
	for _, id := range ids {
		if i := s.home().instances.byID[id]; i != nil {
			i.protected = false
		}
	}
	s.mu.Unlock()
	s.must("TerminateInstances", numbered("InstanceId", ids)...)
	s.Advance(0)
}

// Vanish terminates instances and removes them at once, so that no describe shows them.
func (s *Server) Vanish(ids ...string) {
	s.Terminate(ids...)
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.home()
	for _, id := range ids {
		if i := a.instances.byID[id]; i != nil {
			if len(i.enis) > 0 {
				i.state = terminated
				a.bury(i)
			}
			a.instances.remove(i)
		}
	}
}

// Stop stops instances.
func (s *Server) Stop(ids ...string) {
	s.must("StopInstances", numbered("InstanceId", ids)...)
	s.Advance(0)
}

// Run starts stopped instances.
func (s *Server) Run(ids ...string) {
	s.must("StartInstances", numbered("InstanceId", ids)...)
	s.Advance(0)
}

func numbered(name string, values []string) []string {
	var all []string
	for i, v := range values {
		all = append(all, fmt.Sprintf("%s.%d", name, i+1), v)
	}
	return all
}

// Network has the IDs of a VPC for tests and of its parts.
type Network struct {
	VPC     string
	Main    string   // the main route table
	Subnets []string // one a zone
}

// Default returns the default VPC, which every account has.
func (s *Server) Default() Network {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.home().network(s.home().vpcs.order[0])
}

// AddNetwork makes a VPC with a subnet in each zone. The subnets have the VPC's first blocks of
// a prefix length. With v6, all have IPv6 blocks.
func (s *Server) AddNetwork(cidr string, bits int, v6 bool) Network {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.home()
	p := netip.MustParsePrefix(cidr).Masked()
	v := a.addVPC(p)
	if v6 {
		a.addV6(v)
	}
	at := p.Addr()
	for n, z := range a.zones {
		sub := a.addSubnet(v, netip.PrefixFrom(at, bits), z)
		if v6 {
			b := v.v6[0].prefix.Addr().As16()
			b[7] = byte(n)
			sub.v6 = []block{{"subnet-cidr-assoc-" + a.hex(), netip.PrefixFrom(netip.AddrFrom16(b), 64)}}
		}
		at = lastOf(sub.v4).Next()
	}
	return a.network(v)
}

func (a *account) network(v *vpc) Network {
	n := Network{VPC: v.id, Main: v.main.id}
	for _, s := range a.subnets.order {
		if s.vpc == v {
			n.Subnets = append(n.Subnets, s.id)
		}
	}
	return n
}

// AddTable makes a route table for subnets of a VPC, and returns its ID.
func (s *Server) AddTable(vpc string, tags map[string]string, subnets ...string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.home()
	t := a.addTable(a.vpcs.byID[vpc])
	for key, value := range tags {
		t.setTag(tag{key, value})
	}
	for _, id := range subnets {
		t.associations = append(t.associations, &association{id: "rtbassoc-" + a.hex(), subnet: a.subnets.byID[id]})
	}
	return t.id
}

// Tag sets tags of an object.
func (s *Server) Tag(id string, tags map[string]string) {
	var args []string
	n := 0
	for key, value := range tags {
		n++
		args = append(args, fmt.Sprintf("Tag.%d.Key", n), key, fmt.Sprintf("Tag.%d.Value", n), value)
	}
	s.must("CreateTags", append(args, "ResourceId.1", id)...)
}

// Tables returns the IDs of all route tables.
func (s *Server) Tables() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var ids []string
	for _, t := range s.home().tables.order {
		ids = append(ids, t.id)
	}
	return ids
}

// Routes returns the routes of a table, including the local ones.
func (s *Server) Routes(table string) []Route {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.home()
	t := a.tables.byID[table]
	if t == nil {
		return nil
	}
	var all []Route
	for _, r := range t.routes {
		v := Route{Destination: r.to.String(), Target: r.via.id, State: a.stateOf(t, r), Origin: r.origin}
		if r.list != "" {
			v.Destination = r.list
		}
		if n := a.enis.byID[r.via.id]; n != nil && n.at != nil {
			v.Instance = n.at.instance.id
		}
		all = append(all, v)
	}
	return all
}

// SetRoute sets a table's route to a destination, without any limit. The target is the ID of an
// instance, an interface or a gateway. Without a target, SetRoute removes the route.
func (s *Server) SetRoute(table, destination, to string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.home()
	t, p := a.tables.byID[table], netip.MustParsePrefix(destination).Masked()
	if old := t.to[p]; old != nil {
		t.remove(old)
	}
	if to == "" {
		return
	}
	via := target{"gatewayId", to}
	if i := a.instances.byID[to]; i != nil {
		via = target{"networkInterfaceId", i.enis[0].id}
	} else if _, ok := a.enis.byID[to]; ok {
		via.element = "networkInterfaceId"
	}
	t.add(&route{to: p, via: via, origin: "CreateRoute", made: time.Time{}})
}
