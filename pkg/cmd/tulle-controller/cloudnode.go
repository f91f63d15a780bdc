package main

import (
	"time"

	"github.com/tulle-net/tulle/pkg/controller/cloudnode"
)

const (
	// nodeRefresh is how often all Nodes are compared with their instances.
	nodeRefresh = 5 * time.Minute
	// zoneIDLabel is AWS's label for the ID of a zone.
	zoneIDLabel = "topology.k8s.aws/zone-id"
)

// cloudNodePart initialises Nodes from their instances.
var cloudNodePart = part{name: cloudnode.Name, aliases: []string{"cloud-node"}, idle: (*settings).needsCloud, add: (*process).addCloudNode}

func (p *process) addCloudNode() error {
	c := cloudnode.New(p.engine, cloudnode.Options{Client: p.client, Cloud: p.cloud, Refresh: nodeRefresh, ZoneID: zoneIDLabel, Event: p.engine.Event})
	p.reports = append(p.reports, func(r *reading, all bool) {
		now := c.Report(r.at)
		r.nodes = &now
		r.say(now.Waiting, "Node waits for its instance", "Nodes wait for their instances", "every Node has what its instance says")
	})
	return nil
}
