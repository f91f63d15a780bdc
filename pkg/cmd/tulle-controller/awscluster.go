package main

import (
	"context"
	"time"

	"k8s.io/klog/v2"

	"github.com/tulle-net/tulle/pkg/awsnet"
	"github.com/tulle-net/tulle/pkg/awsnet/apply"
	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/cloud/aws"
	"github.com/tulle-net/tulle/pkg/controller"
	"github.com/tulle-net/tulle/pkg/controller/awscluster"
	"github.com/tulle-net/tulle/pkg/flags"
	"github.com/tulle-net/tulle/pkg/page"
)

// awsClusterPart builds the networks of AWSClusters. It does the work of Cluster API's AWS
// provider, so it runs only where it is named.
var awsClusterPart = part{name: awscluster.Name, aliases: []string{"awscluster"}, named: true, idle: alwaysWorks, add: (*process).addAWSClusters}

// clusterSettings are about the networks of clusters.
type clusterSettings struct {
	period time.Duration // of comparisons of a network with the account
	share  int           // of the request rates of AWS, in percent
}

// clusterFlags are the flags of the controllers of Cluster API.
func (s *settings) clusterFlags() []flags.Flag {
	return []flags.Flag{
		{Name: "network-reconciliation-period", Group: ofClusterAPI, Value: "DURATION", Default: "1m",
			About: "interval of comparisons of each AWSCluster's network",
			Set:   flags.To(&s.clusters.period, readNetworkPeriod)},
		shareFlag("network-api-share", ofClusterAPI, "percent of AWS's request rates to use for networks", &s.clusters.share),
	}
}

func readNetworkPeriod(value string) (time.Duration, error) {
	d, err := time.ParseDuration(value)
	if err != nil || d < 5*time.Second || d > 24*time.Hour {
		return 0, flags.Refuse(value, "not a duration from 5s to 24h", "use one like 1m")
	}
	return d, nil
}

// checkClusters rejects flags that have no effect without the controller of networks.
func (s *settings) checkClusters(g *flags.Given) error {
	if s.runs(awsClusterPart) {
		return nil
	}
	for _, f := range s.clusterFlags() {
		if g.Has(f.Name) {
			return &flags.Error{Flag: g.From(f.Name), Why: "has no effect without " + awscluster.Name, Fix: "leave it out, or use --controllers=awscluster"}
		}
	}
	return nil
}

// alwaysWorks is for controllers that need no other setting.
func alwaysWorks(*settings) *flags.Error { return nil }

func (p *process) addAWSClusters() error {
	p.accounts = &accounts{share: float64(p.settings.clusters.share) / 100, regions: make(map[string]*regionClient), past: make(map[cloud.Call]int)}
	p.accounts.beside, _ = p.cloud.(*aws.Client)
	c := awscluster.New(p.engine, awscluster.Options{
		Client: p.client, Region: p.accounts.in, Period: p.settings.clusters.period, Preview: p.settings.mode == controller.ObserveMode, Event: p.engine.Event,
	})
	p.reports = append(p.reports, func(r *reading, all bool) {
		if all {
			now := c.Report()
			r.networks = &now
		}
		r.say(c.Busy(), "network of a cluster is not ready", "networks of clusters are not ready", "the network of every cluster is ready")
	})
	return nil
}

// account is AWS in one region, as the controller of networks has it.
type account struct{ client *aws.Client }

// Zones implements awscluster.Cloud.
func (a account) Zones(ctx context.Context) ([]awsnet.Zone, error) { return a.client.NetworkZones(ctx) }

// Network implements awscluster.Cloud.
func (a account) Network(ctx context.Context, s awscluster.Scope) (awsnet.Account, error) {
	return a.client.Network(ctx, aws.NetworkScope{Owner: s.Owner, VPC: s.VPC, Balancers: true, Bastion: s.Bastion, Carrier: s.Carrier, Count: s.Count, Holders: s.End})
}

// Usage implements awscluster.Cloud.
func (a account) Usage(ctx context.Context, v awsnet.View) (map[string]awsnet.Usage, error) {
	use, assumed, err := a.client.NetworkUsage(ctx, v)
	if len(assumed) > 0 {
		klog.V(1).InfoS("Assuming AWS's default quotas", "why", assumed)
	}
	return use, err
}

// Change implements awscluster.Cloud.
func (a account) Change(ctx context.Context, o awsnet.Owner, call awsnet.Call, all []apply.Change) ([]apply.Made, error) {
	return a.client.NetworkChanger(o).Change(ctx, call, all)
}

// Now implements awscluster.Cloud.
func (a account) Now(ctx context.Context, ids []string) (map[string]awsnet.Found, error) {
	return a.client.NetworkNow(ctx, ids...)
}

// networkFacts returns what the page says of clusters' networks.
func (r reading) networkFacts() page.Section {
	s, now := page.Section{Name: "Networks of clusters"}, r.networks
	foreign := 0
	for _, row := range now.Rows {
		foreign += row.Foreign
	}
	for _, code := range awscluster.Codes {
		if n := now.Counts[code]; n > 0 {
			s.Add(string(code), page.Grouped(n))
		}
	}
	if len(now.Rows) == 0 {
		s.Add("AWSClusters", "none")
	}
	if foreign > 0 {
		s.Add("foreign objects in them", page.Grouped(foreign))
	}
	if now.Counts[awscluster.Failing]+now.Counts[awscluster.Invalid] > 0 {
		s.Class = page.Warn
	}
	return s
}

// networkReasons adds what is wrong with clusters' networks.
func (r reading) networkReasons(add func(class, what, text string)) {
	if r.networks == nil {
		return
	}
	var wrong []page.Reason
	for _, row := range r.networks.Rows {
		if row.Code == awscluster.Failing || row.Code == awscluster.Invalid {
			wrong = append(wrong, page.Reason{What: "AWSCluster " + row.Cluster, Text: row.Text})
		}
	}
	addSome(add, wrong, page.Reason{What: "Networks", Text: "more networks of clusters are not ready; kubectl get awsclusters -A has the rest"})
}

// writeNetworks writes the list of clusters' networks.
func (v view) writeNetworks(d *page.Document) {
	if v.networks == nil || len(v.networks.Rows) == 0 {
		return
	}
	all := v.networks.Rows
	d.Add(`<section class="card list" id="networks">
<h2>Networks of clusters</h2>
<table>
<thead><tr><th>AWSCluster</th><th>Region</th><th>State</th><th>What happens</th></tr></thead>
<tbody>
`)
	for _, n := range all[:min(mostRows, len(all))] {
		d.Add(`<tr><td class="node"><bdi>{}</bdi></td><td>{}</td><td><code>{}</code></td><td class="text"><bdi>{}</bdi></td></tr>`+"\n",
			page.Line(n.Cluster, page.Longest), page.Line(n.Region, page.Longest), string(n.Code), page.Line(pick(n.Text == "", n.Endpoint, n.Text), page.Longest))
	}
	d.Add("</tbody>\n</table>\n")
	writeMore(d, len(all), "kubectl get awsclusters -A")
	d.Add("</section>\n")
}
