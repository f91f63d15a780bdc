package cloudbalancer

import (
	"slices"
	"strings"
	"testing"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/cloud/cloudtest"
)

// A new Service with one port costs seven calls, in three rounds.
func TestNewServiceCostsFewCalls(t *testing.T) {
	l := newLab(t)
	rounds, last := l.settle(l.want(service("web")))
	if rounds != 3 || l.calls != 7 || !last.Done {
		t.Errorf("%d rounds, %d calls, done %t", rounds, l.calls, last.Done)
	}
	l.balance(service("web"))
	all := l.cloud.All()
	b := all.Balancers[0]
	if b.Scheme != cloud.InternetFacing || len(b.Mappings) != 3 || b.Mappings[0].Subnet != "subnet-elb-a" || len(b.Security) != 1 || len(b.Listeners) != 1 {
		t.Errorf("%+v", b)
	}
	if got := l.cloud.Targets(b.Name, 80); !slices.Equal(got, l.setting.Targets) {
		t.Errorf("targets %v", got)
	}
	for _, s := range all.Security {
		if s.ID == cloudtest.NodeGroup && (len(s.Rules) != 1 || s.Rules[0].Group != b.Security[0] || s.Rules[0].From != 30080) {
			t.Errorf("rules of Nodes: %+v", s.Rules)
		}
		if s.ID == b.Security[0] && describe(sorted(s.Rules)) != "icmp 3-4 from 0.0.0.0/0, tcp 80 from 0.0.0.0/0" {
			t.Errorf("rules of clients: %s", describe(sorted(s.Rules)))
		}
	}
	for _, tags := range []map[string]string{b.Tags, all.Groups[0].Tags} {
		if tags["kubernetes.io/cluster/prod"] != "owned" || tags[ServiceTag] != "default/web" || tags[UIDTag] != service("web").UID {
			t.Errorf("tags %v", tags)
		}
	}
}

// Every deletion carries the mark that makes it ours, and nothing of others goes.
func TestRemoveLeavesNothingAndOthers(t *testing.T) {
	l := newLab(t)
	before := l.cloud.All()
	foreign := cloud.SecurityGroup{ID: "sg-foreign", Name: "k8s-elb-someone", Network: "net-1", Tags: map[string]string{"kubernetes.io/cluster/prod": "owned", ServiceTag: "default/web", UIDTag: "another"}}
	l.cloud.Put(cloud.Balancing{Security: []cloud.SecurityGroup{foreign}})
	l.read()
	web, db := l.balance(service("web")), l.balance(service("db"))
	l.remove(web.Ref)
	if all := l.cloud.All(); len(all.Balancers) != 1 || len(all.Groups) != 1 || len(all.Security) != len(before.Security)+2 || len(all.Security[2].Rules)+len(all.Security[1].Rules)+len(all.Security[0].Rules) == 0 {
		t.Errorf("%+v", all)
	}
	l.remove(db.Ref)
	if all := l.cloud.All(); len(all.Balancers)+len(all.Groups) != 0 || len(all.Security) != len(before.Security)+1 {
		t.Errorf("%+v", all)
	}
}

// What changes is changed, and nothing else, in as few calls as there are.
func TestChangesOfAService(t *testing.T) {
	for name, test := range map[string]struct {
		from, to func(*Service)
		nodes    int
		want     string // the verbs, of all rounds
	}{
		"nothing":              {want: ""},
		"a node more":          {nodes: 3, want: "register-targets"},
		"a node fewer":         {nodes: 1, want: "deregister-targets"},
		"no node":              {nodes: -1, want: ""},
		"250 nodes":            {nodes: 250, want: "register-targets register-targets register-targets"},
		"another range":        {to: func(s *Service) { s.SourceRanges = []string{"192.0.2.0/24"} }, want: "allow-ingress revoke-ingress"},
		"another nodePort":     {to: func(s *Service) { s.Ports[0].NodePort = 30081 }, want: "create-target-group allow-ingress register-targets set-listener delete-target-group revoke-ingress"},
		"another port":         {to: func(s *Service) { s.Ports[0].Port = 81 }, want: "allow-ingress create-target-group delete-listener create-listener delete-target-group register-targets revoke-ingress"},
		"a second port":        {to: func(s *Service) { s.Ports = append(s.Ports, Port{"tls", "TCP", 443, 30443}) }, want: "allow-ingress allow-ingress create-target-group create-listener register-targets"},
		"UDP on the same port": {to: func(s *Service) { s.Ports = append(s.Ports, Port{"dns", "UDP", 80, 30080}) }, want: "allow-ingress allow-ingress create-target-group register-targets set-listener delete-target-group"},
		"cross zone":           {to: annotate(aCrossZone, "true"), want: "set-load-balancer-attributes"},
		"no cross zone":        {from: annotate(aCrossZone, "true"), to: annotate(aCrossZone, ""), want: "set-load-balancer-attributes"},
		"proxy protocol":       {to: annotate(aProxy, "*"), want: "set-target-group-attributes"},
		"tags":                 {to: annotate(aTags, "team=a"), want: "add-tags add-tags add-tags"},
		"check":                {to: annotate(aCheckInterval, "20"), want: "set-health-check"},
		"TLS":                  {to: annotate(aCertificate, "arn:aws:acm:eu-west-1:123456789012:certificate/1"), want: "set-listener"},
		"local":                {to: func(s *Service) { s.Local, s.HealthPort = true, 32000 }, want: "create-target-group allow-ingress register-targets set-listener delete-target-group"},
		"a group of security":  {to: annotate(aSecurity, cloudtest.NodeGroup), want: "allow-ingress set-security-groups revoke-ingress delete-security-group"},
		"an extra one":         {to: annotate(aExtra, cloudtest.NodeGroup), want: "set-security-groups"},
		"fewer subnets":        {to: annotate(aSubnets, "subnet-elb-a"), want: "set-subnets"},
		"subnets by name":      {to: annotate(aSubnets, "elb c, elb a,elb b"), want: ""},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			s := service("web")
			if test.from != nil {
				test.from(&s)
			}
			l.balance(s)
			if test.to != nil {
				s.Ports = slices.Clone(s.Ports)
				test.to(&s)
			}
			if test.nodes != 0 {
				l.nodes(max(test.nodes, 0))
			}
			w, got := l.want(s), []string{}
			for {
				step := l.step(func(h Holding) Step { return Next(w, h, l.setting) }, w.Ref)
				if len(step.Changes) == 0 {
					break
				}
				got = append(got, summaries(step.Changes)...)
				l.make(step.Changes)
			}
			want := strings.Fields(test.want)
			slices.Sort(want)
			if slices.Sort(got); !slices.Equal(got, want) {
				t.Errorf("\n%v, want\n%v", got, want)
			}
			l.balance(s)
		})
	}
}
