package cloudbalancer

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/cloud/cloudtest"
)

// ofCCM puts what the AWS cloud controller manager makes for a Service: a balancer without
// security groups, a target group, and rules in the Nodes' security group.
func (l *lab) ofCCM(s Service, tags map[string]string) {
	name := BalancerName(s.UID)
	var mappings []cloud.SubnetMapping
	for _, x := range l.setting.Subnets {
		if x.Tags[publicRole] != "" {
			mappings = append(mappings, cloud.SubnetMapping{Subnet: x.ID, Zone: x.Zone})
		}
	}
	cloud.SortMappings(mappings)
	var targets []cloud.Target
	for _, id := range l.setting.Targets {
		targets = append(targets, cloud.Target{ID: id, Port: 30080, State: "healthy"})
	}
	any4 := netip.MustParsePrefix("0.0.0.0/0")
	for _, g := range l.cloud.All().Security {
		if g.ID == cloudtest.NodeGroup {
			g.Rules = append(g.Rules,
				cloud.Rule{Protocol: "tcp", From: 30080, To: 30080, Source: any4, Description: clientRule + name},
				cloud.Rule{Protocol: "icmp", From: 3, To: 4, Source: any4, Description: mtuRule + name},
			)
			l.cloud.Put(cloud.Balancing{Security: []cloud.SecurityGroup{g}})
		}
	}
	l.cloud.Put(cloud.Balancing{
		Balancers: []cloud.Balancer{{
			ID: "lb-ccm", Name: name, Network: "net-1", Scheme: cloud.InternetFacing, Families: cloud.IPv4Only, Host: name + ".elb.fake", State: "active", Mappings: mappings, Tags: with(tags, nil),
			Attributes: map[string]string{}, Listeners: []cloud.Listener{{ID: "l-ccm", Balancer: "lb-ccm", Protocol: cloud.TCP, Port: 80, Group: "tg-ccm"}},
		}},
		Groups: []cloud.TargetGroup{{
			ID: "tg-ccm", Name: "k8s-default-web-0123456789", Network: "net-1", Protocol: cloud.TCP, Port: 30080, Kind: "instance", Family: "ipv4", Tags: with(tags, nil), Attributes: map[string]string{},
			Health: cloud.HealthCheck{Protocol: cloud.TCP, Port: "traffic-port", Interval: 30, Timeout: 10, Healthy: 3, Unhealthy: 3}, Targets: targets,
		}},
	})
	l.read()
}

// rulesOfNodes returns the rules of the Nodes' security group.
func (l *lab) rulesOfNodes() []cloud.Rule {
	for _, g := range l.cloud.All().Security {
		if g.ID == cloudtest.NodeGroup {
			return g.Rules
		}
	}
	return nil
}

// What the AWS cloud controller manager made is adopted as it is: nothing is re-created or
// deleted. What that program finds it by stays, so it can be handed back.
func TestAdoptionChangesOnlyTagsAndRules(t *testing.T) {
	l := newLab(t)
	s := service("web")
	theirs := map[string]string{"kubernetes.io/cluster/prod": "owned", ServiceTag: "default/web"}
	l.ofCCM(s, theirs)
	before := len(l.cloud.Changes())
	w := l.balance(s)
	for _, c := range l.cloud.Changes()[before:] {
		switch c.Verb {
		case cloud.AddTags:
			if len(c.Tags) != 1 || c.Tags[UIDTag] != s.UID {
				t.Errorf("tags %v", c.Tags)
			}
		case cloud.AllowIngress: // for health checks from the subnets
		default:
			t.Errorf("%s", c.Verb)
		}
	}
	all := l.cloud.All()
	b, g := all.Balancers[0], all.Groups[0]
	for key, value := range theirs {
		if b.Tags[key] != value || g.Tags[key] != value {
			t.Errorf("the tag %s is %q and %q", key, b.Tags[key], g.Tags[key])
		}
	}
	if b.ID != "lb-ccm" || b.Name != BalancerName(s.UID) || g.ID != "tg-ccm" || g.Name != "k8s-default-web-0123456789" || len(all.Security) != 1 {
		t.Errorf("%+v", all)
	}
	for _, tags := range []map[string]string{b.Tags, g.Tags} { // it was handed back, and over again
		delete(tags, UIDTag)
	}
	l.cloud.Put(all)
	l.read()
	l.balance(s)
	l.remove(w.Ref)
	if all := l.cloud.All(); len(all.Balancers)+len(all.Groups)+len(l.rulesOfNodes()) > 0 {
		t.Errorf("left: %+v", all)
	}
}

// A balancer with the name of ours that the cluster does not own, or that is another
// Service's, is neither changed nor deleted.
func TestUnownedBalancerIsLeftAlone(t *testing.T) {
	for _, tags := range []map[string]string{
		{"kubernetes.io/cluster/prod": "shared", ServiceTag: "default/web"},
		{"kubernetes.io/cluster/prod": "owned", ServiceTag: "default/other"},
	} {
		l := newLab(t)
		s := service("web")
		l.ofCCM(s, tags)
		w := l.want(s)
		step := l.step(func(h Holding) Step { return Next(w, h, l.setting) }, w.Ref)
		if len(step.Changes) > 0 || len(step.Problems) != 1 || !step.Problems[0].Fatal {
			t.Errorf("%v: %+v", tags, step)
		}
		l.remove(s.Ref)
		if all := l.cloud.All(); len(all.Balancers) != 1 || len(all.Groups) != 1 {
			t.Errorf("%v: %+v", tags, all)
		}
	}
}

// With a security group for all, balancers get none of their own. A balancer that was made
// without any stays so, and only a Service that names one hears of it.
func TestOneSecurityGroupForAll(t *testing.T) {
	l := newLab(t)
	l.options.Security = "sg-all"
	l.cloud.Put(cloud.Balancing{Security: []cloud.SecurityGroup{{ID: "sg-all", Name: "all", Network: "net-1"}}})
	l.balance(service("web"))
	before := l.cloud.All()
	if b := before.Balancers[0]; !slices.Equal(b.Security, []string{"sg-all"}) || len(before.Security) != 2 {
		t.Errorf("%q of %d", b.Security, len(before.Security))
	}
	l = newLab(t)
	l.options.Security = "sg-all"
	l.ofCCM(service("web"), map[string]string{"kubernetes.io/cluster/prod": "owned", ServiceTag: "default/web"})
	l.balance(service("web"))
}

// A dual-stack balancer needs subnets with IPv6, and lets clients of both families in. It
// keeps its host name when it becomes dual-stack, and IPv4 again.
func TestDualStack(t *testing.T) {
	l := newLab(t)
	s := service("web", annotate(aFamilies, "dualstack"))
	if _, last := l.settle(l.want(s)); last.Done || len(last.Problems) == 0 || !last.Problems[0].Fatal {
		t.Fatalf("without IPv6: %+v", last)
	}
	subnets := slices.Clone(l.setting.Subnets)
	for i := range subnets {
		subnets[i].IPv6 = netip.PrefixFrom(netip.AddrFrom16([16]byte{0: 0xfd, 7: byte(i)}), 64)
	}
	l.cloud.SetSubnets(subnets...)
	l.read()
	l.balance(service("web"))
	host := l.cloud.All().Balancers[0].Host
	l.balance(s)
	all := l.cloud.All()
	var clients []string
	for _, g := range all.Security {
		if g.ID == all.Balancers[0].Security[0] {
			for _, r := range g.Rules {
				clients = append(clients, r.Protocol+" "+r.Source.String())
			}
		}
	}
	slices.Sort(clients)
	if want := []string{"icmp 0.0.0.0/0", "icmpv6 ::/0", "tcp 0.0.0.0/0", "tcp ::/0"}; !slices.Equal(clients, want) {
		t.Errorf("clients %q, want %q", clients, want)
	}
	if b := all.Balancers[0]; b.Families != cloud.DualStack || b.Host != host || all.Groups[0].Family != "ipv4" {
		t.Errorf("%s %s to %s", b.Host, b.Families, all.Groups[0].Family)
	}
	only6 := service("web", func(s *Service) { s.Families = []string{"IPv6"} })
	l.balance(only6)
	if all := l.cloud.All(); len(all.Groups) != 1 || all.Groups[0].Family != "ipv6" || all.Balancers[0].Host != host {
		t.Errorf("%+v", all.Groups)
	}
	l.balance(service("web"))
	if b := l.cloud.All().Balancers[0]; b.Families != cloud.IPv4Only || b.Host != host {
		t.Errorf("%s %s", b.Families, b.Host)
	}
}
