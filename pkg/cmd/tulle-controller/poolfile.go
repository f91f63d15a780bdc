package main

import (
	"context"
	"errors"
	"io/fs"

	"github.com/tulle-net/tulle/pkg/controller/nodeipam"
	"github.com/tulle-net/tulle/pkg/flags"
	"github.com/tulle-net/tulle/pkg/ipam"
	"github.com/tulle-net/tulle/pkg/nodepools"
)

// fileSource is the source of the pools in the file.
const fileSource = "file"

// checkPoolFile reads the file of pools. A program that starts with a bad one would give
// Nodes nothing, or podCIDRs of the wrong pool.
func (s *settings) checkPoolFile(g *flags.Given) (err error) {
	const name = "node-pools"
	if s.poolFile == "" {
		return nil
	}
	if _, is := cloudModes[s.allocator]; is {
		return &flags.Error{Flag: g.From(name), Why: "has no effect with --cidr-allocator-type=" + s.allocator, Fix: "leave it out"}
	}
	s.filePools, err = nodepools.Read(s.poolFile, s.pools)
	if err == nil {
		return nil
	}
	e := &flags.Error{Flag: g.From(name), Value: s.poolFile, Why: err.Error(), Fix: "Documentation/node-pools.md has the format"}
	if failed, is := errors.AsType[*fs.PathError](err); is {
		e.Why, e.Fix = failed.Err.Error(), "name a file that this program may read"
	}
	return e
}

// followPools uses the pools in the file, also after each change of the file.
func (p *process) followPools(ctx context.Context) {
	pools := p.settings.filePools
	nodepools.Follow(ctx, p.settings.poolFile, p.settings.pools, func(now []ipam.Pool, err error) {
		var problems []nodeipam.Problem
		if err != nil {
			problems = append(problems, nodeipam.Problem{Source: fileSource, Text: p.settings.poolFile + ": " + err.Error() + "; the previous pools stay in force"})
		} else {
			pools = now
		}
		use := pools
		p.engine.Change(func() { _ = p.pools.SetPools(fileSource, use, problems...) }) // SetPools reports what it rejects
	})
}
