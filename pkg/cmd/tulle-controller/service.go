package main

import (
	"fmt"
	"strconv"
	"time"

	"github.com/tulle-net/tulle/pkg/cloudbalancer"
	"github.com/tulle-net/tulle/pkg/controller"
	"github.com/tulle-net/tulle/pkg/controller/service"
	"github.com/tulle-net/tulle/pkg/flags"
	"github.com/tulle-net/tulle/pkg/page"
)

// balancerSettings are about the load balancers of Services.
type balancerSettings struct {
	class     string // of Services that are ours
	byDefault bool   // those without a class are, too
	period    time.Duration
}

// balancerFlags are the flags of the service controller.
func (s *settings) balancerFlags() []flags.Flag {
	return []flags.Flag{
		{Name: "load-balancer-class", Group: ofCloud, Value: "CLASS", Default: "tulle.net/nlb",
			About: "loadBalancerClass of the Services that are served",
			Set:   flags.To(&s.balancers.class, readClass)},
		{Name: "default-load-balancer-class", Group: ofCloud, Default: "false",
			About: "serve Services without a class whose type is nlb, too",
			Set:   flags.To(&s.balancers.byDefault, flags.Bool)},
		{Name: "service-reconciliation-period", Group: ofCloud, Value: "DURATION", Default: "10m",
			About: "interval of comparisons of all load balancers",
			Set:   flags.To(&s.balancers.period, readServiceTime)},
	}
}

// readClass reads a loadBalancerClass.
func readClass(value string) (string, error) {
	if !cloudbalancer.IsClass(value) {
		return "", flags.Refuse(value, "not a class of load balancers", "use a name like tulle.net/nlb")
	}
	return value, nil
}

func readServiceTime(value string) (time.Duration, error) {
	d, err := time.ParseDuration(value)
	if err != nil || d < time.Minute || d > 24*time.Hour {
		return 0, flags.Refuse(value, "not a duration from 1m to 24h", "use one like 10m")
	}
	return d, nil
}

// servicePart gives Services load balancers. It needs rights that the others do not, so it
// runs only where it is named.
var servicePart = part{name: service.Name, aliases: []string{"service"}, named: true, idle: (*settings).needsCloud, add: (*process).addServices}

// lateBalancing is how long the cloud may take to show what a creation without an answer
// asked for; 0 is the controller's own time.
var lateBalancing time.Duration

func (p *process) addServices() error {
	s := &p.settings
	client, ok := p.cloud.(service.Cloud)
	if !ok {
		return fmt.Errorf("--cloud-provider=%s: its client makes no load balancers", s.cloud.provider)
	}
	if in, ok := p.cloud.(interface{ Region() string }); ok {
		p.region = in.Region()
	}
	c := service.New(p.engine, service.Options{
		Client: p.client, Cloud: client, Region: p.region, Period: s.balancers.period, DryRun: s.mode == controller.ObserveMode, Only: s.node, Late: lateBalancing, Event: p.engine.Event,
		Rules: cloudbalancer.Options{
			Cluster: s.clusterName(), Class: s.balancers.class, Default: s.balancers.byDefault, DefaultName: "--default-load-balancer-class", NodeRules: !s.aws.config.KeepsNodeRules,
			Security: s.aws.config.Security,
		},
	})
	p.services = c
	p.reports = append(p.reports, func(r *reading, all bool) {
		if all {
			now := c.Report()
			r.services = &now
		}
		r.say(c.Waiting(), "Service waits for its load balancer", "Services wait for their load balancers", "every Service has its load balancer")
	})
	return nil
}

// clusterName returns the name of the cluster in tags. That of the cloud config comes
// first.
func (s *settings) clusterName() string {
	if name := s.aws.config.Cluster; name != "" {
		return name
	}
	return s.cloud.cluster
}

// checkBalancers rejects flags that have no effect without the service controller, and
// settings that this controller cannot carry out.
func (s *settings) checkBalancers(g *flags.Given) error {
	if s.runs(servicePart) {
		return s.checkBalancerConfig(g)
	}
	for _, f := range s.balancerFlags() {
		if g.Has(f.Name) {
			return &flags.Error{Flag: g.From(f.Name), Why: "has no effect without " + service.Name, Fix: "leave it out, or use --controllers=*,service"}
		}
	}
	return nil
}

// checkBalancerConfig refuses settings of the cloud config that the service controller
// cannot carry out.
func (s *settings) checkBalancerConfig(g *flags.Given) error {
	c := s.aws.config
	refuse := func(why, fix string) error {
		return &flags.Error{Flag: g.From("cloud-config"), Value: s.cloud.file, Why: why, Fix: fix}
	}
	switch {
	case c.Legacy:
		// Load balancers get the newer tag only, so no reading with the older one has them.
		return refuse("KubernetesClusterTag does not go with "+service.Name,
			"use KubernetesClusterID = "+c.Cluster+", and tag instances, subnets, security groups and route tables with kubernetes.io/cluster/"+c.Cluster)
	case c.Mode != "":
		return refuse("NLBSecurityGroupMode: unknown mode "+strconv.Quote(c.Mode),
			"use Managed, which gives each load balancer a security group, or leave it out, which does the same here")
	}
	return nil
}

// serviceFacts returns what the page says of load balancers.
func (r reading) serviceFacts() page.Section {
	s, now := page.Section{Name: "Load balancers"}, r.services
	s.Add("in the account", page.Grouped(now.Balancers))
	if most := now.Quota.Balancers; most > 0 {
		s.Add("allowed in the region", page.Grouped(most))
	}
	for _, code := range service.Codes {
		if n := now.Counts[code]; n > 0 {
			s.Add("Services "+string(code), page.Grouped(n))
		}
	}
	if d := now.Details; d.Read < d.All {
		s.Add("details read", page.Grouped(d.Read)+" of "+page.Grouped(d.All))
	}
	if !now.Read.IsZero() {
		s.AddTime("compared", page.Past(r.at, now.Read))
	}
	if now.Counts[service.Failing]+now.Counts[service.Invalid] > 0 {
		s.Class = page.Warn
	}
	return s
}

// serviceReasons adds what is wrong with load balancers.
func (r reading) serviceReasons(add func(class, what, text string)) {
	if r.services == nil {
		return
	}
	var wrong []page.Reason
	for _, row := range r.services.Rows {
		if row.Code == service.Failing || row.Code == service.Invalid {
			wrong = append(wrong, page.Reason{What: "Service " + row.Service, Text: row.Text})
		}
	}
	addSome(add, wrong, page.Reason{What: "Services", Text: "more Services lack a correct load balancer; tulle-controller explain NAMESPACE/NAME has the rest"})
	if n := len(r.services.Leftovers); n > 0 {
		add(page.Warn, "Load balancers", page.Count(n, "balancer")+" of Services that do not exist, such as "+r.services.Leftovers[0].Name+" of "+r.services.Leftovers[0].Service+"; tulle-controller explain "+r.services.Leftovers[0].Name+" shows how to remove it")
	}
}
