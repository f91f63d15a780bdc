package main

import (
	"slices"
	"time"

	"github.com/tulle-net/tulle/pkg/controller/cloudipam"
	"github.com/tulle-net/tulle/pkg/controller/clustercidr"
	"github.com/tulle-net/tulle/pkg/controller/nodeipam"
	"github.com/tulle-net/tulle/pkg/ipam"
)

// allocator is what all kinds of node IPAM have in common.
type allocator interface {
	Progress() (waiting, fences int)
	Report(now time.Time) nodeipam.Report
	Layouts(now time.Time, most, parts int) []ipam.Layout
}

// findingCodes are the codes of findings of all kinds of node IPAM.
func findingCodes() []ipam.Code { return slices.Concat(ipam.Codes, cloudipam.Codes) }

// addNodeIPAM adds node IPAM of the kind that the settings name.
func (p *process) addNodeIPAM() error {
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
