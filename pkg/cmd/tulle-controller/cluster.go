package main

import (
	"github.com/tulle-net/tulle/pkg/controller"
	core "github.com/tulle-net/tulle/pkg/controller/cluster"
	"github.com/tulle-net/tulle/pkg/page"
)

// clusterPart does the part of Cluster API's core. It must not run beside that, so it runs only
// where it is named.
var clusterPart = part{name: core.Name, aliases: []string{"cluster"}, named: true, idle: alwaysWorks, add: (*process).addClusters}

func (p *process) addClusters() error {
	c := core.New(p.engine, core.Options{Client: p.client, Preview: p.settings.mode == controller.ObserveMode, Event: p.engine.Event})
	p.reports = append(p.reports, func(r *reading, _ bool) {
		now := c.Report()
		r.clusters = &now
		r.say(now.Waiting, "Cluster waits for its control plane", "Clusters wait for their control planes", "every Cluster's control plane answers")
	})
	return nil
}

// clusterFacts returns what the page says of Clusters.
func (r reading) clusterFacts() page.Section {
	s := page.Section{Name: "Clusters"}
	s.Add("all", page.Grouped(r.clusters.Clusters))
	s.Add("without a control plane", page.Grouped(r.clusters.Waiting))
	return s
}
