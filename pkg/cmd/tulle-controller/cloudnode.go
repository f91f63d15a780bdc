package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tulle-net/tulle/pkg/controller/cloudnode"
	"github.com/tulle-net/tulle/pkg/controller/lifecycle"
	"github.com/tulle-net/tulle/pkg/flags"
	"github.com/tulle-net/tulle/pkg/ipam"
	"github.com/tulle-net/tulle/pkg/page"
)

// lifeRules are the rules of deletion. A cloud that shows terminated instances does so for
// an hour. Tests shorten the times.
var lifeRules = lifecycle.Rules{LimitName: "--node-deletion-limit", Remembers: time.Hour}

// nodeSettings are about the Nodes of a cloud.
type nodeSettings struct {
	refresh time.Duration // how often all Nodes are compared with their instances
	period  time.Duration // how often instances of unready Nodes are looked up
	limit   int           // of deletions in an hour, in percent
}

// nodeFlags are the flags of the Nodes of a cloud.
func (s *settings) nodeFlags() []flags.Flag {
	return []flags.Flag{
		{Name: "node-status-update-frequency", Group: ofCloud, Value: "DURATION", Default: "1h",
			About: "interval of comparisons of all Nodes with their instances",
			Set:   flags.To(&s.nodes.refresh, readRefresh)},
		{Name: "node-monitor-period", Group: ofCloud, Value: "DURATION", Default: "1m",
			About: "interval of lookups of unready Nodes' instances",
			Set:   flags.To(&s.nodes.period, readPeriod)},
		{Name: "node-deletion-limit", Group: ofCloud, Value: "PERCENT", Default: "5%",
			About: "most Nodes without an instance to delete in an hour",
			Set:   flags.To(&s.nodes.limit, readDeletionLimit)},
	}
}

// cloudNodePart initialises Nodes from their instances.
var cloudNodePart = part{name: cloudnode.Name, aliases: []string{"cloud-node"}, idle: (*settings).needsCloud, add: (*process).addCloudNode}

func (p *process) addCloudNode() error {
	topology, _ := p.cloud.(cloudnode.Topology) // nil if this cloud has none
	c := cloudnode.New(p.engine, cloudnode.Options{
		Client: p.client, Cloud: p.cloud, Refresh: p.settings.nodes.refresh, ZoneID: p.settings.provider().zoneID,
		Topology: topology, Layer: p.settings.provider().layer, Event: p.engine.Event,
	})
	p.reports = append(p.reports, func(r *reading, _ bool) {
		now := c.Report(r.at)
		r.nodes = &now
		r.say(now.Waiting, "Node waits for its instance", "Nodes wait for their instances", "every Node matches its instance")
	})
	return nil
}

// lifecyclePart taints and deletes Nodes whose instances are stopped or gone.
var lifecyclePart = part{name: lifecycle.Name, aliases: []string{"cloud-node-lifecycle"}, idle: (*settings).needsCloud, add: (*process).addLifecycle}

func (p *process) addLifecycle() error {
	rules := lifeRules
	rules.Limit = p.settings.nodes.limit
	if p.settings.provider().forgets {
		rules.Remembers = 0
	}
	c := lifecycle.New(p.engine, lifecycle.Options{
		Client: p.client, Cloud: p.cloud, Rules: rules,
		Period: p.settings.nodes.period, Preview: p.settings.command == showPlan, Event: p.engine.Event,
	})
	p.reports = append(p.reports, func(r *reading, _ bool) {
		now := c.Report(r.at)
		r.life = &now
		r.say(now.Held(), "Node is not deleted, though its instance is gone", "Nodes are not deleted, though their instances are gone", "")
	})
	return nil
}

// findings returns what is wrong with Nodes, of all controllers.
func (r reading) findings() (all []ipam.Finding) {
	all = append(all, r.ipam.Findings...)
	if r.nodes != nil {
		for _, f := range r.nodes.Findings {
			all = append(all, ipam.Finding{Node: f.Node, UID: f.UID, Code: ipam.Code(f.Code), Text: f.Text})
		}
	}
	return all
}

// codes returns the codes of findings of the controllers that run.
func (r reading) codes() (all []ipam.Code) {
	if r.hasIPAM {
		all = findingCodes()
	}
	if r.nodes != nil {
		for _, c := range cloudnode.Codes {
			all = append(all, ipam.Code(c))
		}
	}
	return all
}

// lifeFacts returns what the page shows of instances that are stopped or gone.
func (r reading) lifeFacts() page.Section {
	s := page.Section{Name: "Instances"}
	l := r.life
	s.Add("Nodes not ready", page.Grouped(l.Unready))
	s.Add("stopped", page.Grouped(l.ShutDown))
	s.Add("gone", page.Grouped(len(l.Gone)))
	s.Add("unready Nodes deleted in the last hour", page.Grouped(l.Deleted))
	if !l.Asked.IsZero() {
		s.AddTime("asked", page.Past(r.at, l.Asked))
	}
	if l.Doubt != "" && len(l.Gone) > 0 {
		s.Class = page.Warn
		s.Add("doubt", l.Doubt)
	}
	return s
}

// writeGone writes the list of Nodes whose instances are gone.
func (v view) writeGone(d *page.Document) {
	if v.life == nil || len(v.life.Gone) == 0 {
		return
	}
	all := v.life.Gone
	d.Add(`<section class="card list" id="gone">
<h2>Nodes whose instances are gone</h2>
<table>
<thead><tr><th>Node</th><th>Code</th><th>What happens</th></tr></thead>
<tbody>
`)
	for _, g := range all[:min(mostRows, len(all))] {
		d.Add(`<tr><td class="node"><bdi>{}</bdi></td><td><code>{}</code></td><td class="text"><bdi>{}</bdi></td></tr>`+"\n",
			page.Line(g.Node, page.Longest), string(g.Why), page.Line(g.Text, page.Longest))
	}
	d.Add("</tbody>\n</table>\n")
	writeMore(d, len(all), "tulle-controller plan")
	d.Add("</section>\n")
}

func readRefresh(value string) (time.Duration, error) {
	d, err := time.ParseDuration(value)
	if err != nil || d < time.Minute || d > 24*time.Hour {
		return 0, flags.Refuse(value, "not a duration from 1m to 24h", "use one like 1h")
	}
	return d, nil
}

func readPeriod(value string) (time.Duration, error) {
	d, err := time.ParseDuration(value)
	if err != nil || d < time.Second || d > lifecycle.LongestPeriod {
		return 0, flags.Refuse(value, fmt.Sprintf("not a duration from 1s to %s", lifecycle.LongestPeriod), "use one like 1m")
	}
	return d, nil
}

func readDeletionLimit(value string) (int, error) {
	n, err := strconv.Atoi(strings.TrimSuffix(value, "%"))
	if err != nil || n < 0 || n > 100 {
		return 0, flags.Refuse(value, "not a part of the Nodes from 0% to 100%", "use one like 5%")
	}
	return n, nil
}
