package nodeipam

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/tulle-net/tulle/pkg/controller"
	"github.com/tulle-net/tulle/pkg/ipam"
)

// Problem is something wrong with the pools of a source. The other pools are in force.
type Problem struct {
	Source string
	// Object is the object that describes the pool, if there is one.
	Object controller.Ref
	Text   string
}

// source is one origin of pools.
type source struct {
	pools    []ipam.Pool
	problems []Problem
}

// SetPools replaces the pools of a source, and its problems. If the Book refuses the
// pools, the source's previous ones stay in force, and the refusal is one more problem.
// Call it in the Engine's loop.
func (c *Controller) SetPools(name string, pools []ipam.Pool, problems ...Problem) error {
	old := c.sources[name]
	c.sources[name] = source{pools, problems}
	err := c.usePools()
	if err != nil {
		c.sources[name] = source{old.pools, append(slices.Clip(problems), Problem{Source: name, Text: err.Error()})}
	}
	return err
}

// reserve takes the ranges of the ServiceCIDRs out of all pools.
func (c *Controller) reserve(services []netip.Prefix) {
	c.services = services
	_ = c.usePools() // the Book has accepted the pools, and any range may be reserved
}

// usePools passes the pools of all sources to the Book.
func (c *Controller) usePools() error {
	var all []ipam.Pool
	for _, name := range slices.Sorted(maps.Keys(c.sources)) {
		for _, p := range c.sources[name].pools {
			p.Reserved = slices.Concat(p.Reserved, c.options.Services, c.services)
			all = append(all, p)
		}
	}
	return c.book.SetPools(all)
}

// problems returns what is wrong with the pools, in the order of the sources' names.
func (c *Controller) problems() (all []Problem) {
	for _, name := range slices.Sorted(maps.Keys(c.sources)) {
		all = append(all, c.sources[name].problems...)
	}
	return all
}
