package main

import (
	"slices"
	"time"

	"github.com/tulle-net/tulle/pkg/controller/cloudipam"
	"github.com/tulle-net/tulle/pkg/controller/clustercidr"
	"github.com/tulle-net/tulle/pkg/controller/nodeipam"
	"github.com/tulle-net/tulle/pkg/flags"
	"github.com/tulle-net/tulle/pkg/ipam"
)

// nodeIPAMPart gives Nodes their podCIDRs.
var nodeIPAMPart = part{name: nodeipam.Name, aliases: []string{"nodeipam"}, idle: (*settings).idleIPAM, add: (*process).addNodeIPAM}

// allocator is what all kinds of node IPAM have in common.
type allocator interface {
	Progress() (waiting, fences int)
	Report(now time.Time) nodeipam.Report
	Layouts(now time.Time, most, parts int) []ipam.Layout
}

// findingCodes are the codes of findings of all kinds of node IPAM.
func findingCodes() []ipam.Code { return slices.Concat(ipam.Codes, cloudipam.Codes) }

// idleIPAM returns why node IPAM has no work.
func (s *settings) idleIPAM() *flags.Error {
	if !s.allocate {
		return &flags.Error{Flag: "allocate-node-cidrs", Why: "off, and no other controller has work", Fix: "use --allocate-node-cidrs --cluster-cidr=10.244.0.0/16, or --cloud-provider"}
	}
	return nil
}

// checkIPAM rejects flags that node IPAM cannot use, or that have no effect without it.
func (s *settings) checkIPAM(g *flags.Given) error {
	const allocate, fix = "allocate-node-cidrs", "add the range of podCIDRs, as in --cluster-cidr=10.244.0.0/16"
	runs := s.runs(nodeIPAMPart)
	switch {
	case !runs:
	case len(s.cluster) == 0 && s.allocator == rangeAllocator && s.poolFile == "":
		return &flags.Error{Flag: g.From(allocate), Why: "needs --cluster-cidr or --node-pools", Fix: fix}
	case len(s.cluster) == 0 && s.allocator == fromClusterAllocator:
		return &flags.Error{Flag: g.From(allocate), Why: "needs --cluster-cidr", Fix: fix}
	}
	for _, f := range s.table() {
		switch {
		case runs || f.Group != nodeIPAM || f.Name == allocate || !g.Has(f.Name):
		case !s.allocate:
			return &flags.Error{Flag: g.From(f.Name), Why: "has no effect without --" + allocate, Fix: "add --" + allocate}
		case f.Name == "cluster-cidr" && s.cloud.provider != "": // limits the routes
		default:
			return &flags.Error{Flag: g.From(f.Name), Why: "has no effect without " + nodeipam.Name, Fix: "leave it out, or add that to --controllers"}
		}
	}
	return nil
}

// addNodeIPAM adds node IPAM of the kind that the settings name.
func (p *process) addNodeIPAM() error {
	if err := p.addAllocator(); err != nil {
		return err
	}
	p.reports = append(p.reports, func(r *reading, all bool) {
		r.hasIPAM = true
		if all {
			r.ipam = p.ipam.Report(r.at)
		} else {
			r.ipam.Waiting, r.ipam.Fences = p.ipam.Progress()
		}
		r.say(r.ipam.Waiting, "Node waits for podCIDRs", "Nodes wait for podCIDRs", "every Node has its podCIDRs")
	})
	return nil
}

func (p *process) addAllocator() error {
	s := p.settings
	if mode, uses := cloudModes[s.allocator]; uses {
		return p.addCloudIPAM(mode)
	}
	ranges, err := nodeipam.New(p.engine, nodeipam.Options{
		Client: p.client, Pools: s.pools, Services: slices.Concat(s.services, s.secondServices),
		Select: s.allocator == multiAllocator || s.poolFile != "", Hold: s.allocator == multiAllocator, Rest: s.rest, Event: p.engine.Event,
	})
	if err != nil {
		return err
	}
	p.ipam = ranges
	if s.poolFile != "" {
		p.pools = ranges
		if err := ranges.SetPools(fileSource, s.filePools); err != nil {
			return err
		}
	}
	if s.allocator == multiAllocator {
		clustercidr.New(p.engine, p.client, ranges)
	}
	return nil
}
