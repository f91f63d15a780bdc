// Package cloudtest has fakes of a cloud that run in the test's process and inject faults. They
// use no network.
//
//	f := cloudtest.New()
//	f.Add("worker-1", "10.4.7.0/24")
//	f.Do(func() { f.Fail = … })
package cloudtest

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/tulle-net/tulle/pkg/cloud"
)

// Secondary is the secondary range of the aliases.
const Secondary = "pods"

// Cloud is a fake of instances with alias ranges. Their IDs are fake://NAME.
type Cloud struct {
	mu        sync.Mutex
	instances map[string]*cloud.Instance // by name
	versions  int
	made      map[string]bool // Change.Request of the changes that were made

	reads, changes int
	// Unreadable are the names of instances that cannot be read.
	Unreadable map[string]bool
	// Fail, if set, is called before a change. If it returns an error, the change is not
	// made.
	Fail func(c cloud.Change) error
	// Lose, if set, is called after a change. If it returns an error, the caller gets that
	// error instead of the answer.
	Lose func(c cloud.Change) error
}

// New returns a Cloud without instances.
func New() *Cloud {
	return &Cloud{instances: make(map[string]*cloud.Instance), made: make(map[string]bool)}
}

// ID returns the provider ID of an instance.
func ID(name string) string { return "fake://" + name }

// Do calls f while no request runs.
func (c *Cloud) Do(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
}

// Add adds an instance with these aliases. It replaces an instance of the same name.
func (c *Cloud) Add(name string, aliases ...string) {
	c.Do(func() {
		i := &cloud.Instance{Name: name}
		for _, a := range aliases {
			i.Aliases = append(i.Aliases, cloud.Alias{Range: netip.MustParsePrefix(a), From: Secondary})
		}
		c.instances[name] = i
		c.touch(i)
	})
}

// SetIPv6 gives an instance a range of IPv6 addresses.
func (c *Cloud) SetIPv6(name, text string) {
	c.Do(func() { c.instances[name].IPv6 = netip.MustParsePrefix(text) })
}

// Remove removes an instance.
func (c *Cloud) Remove(name string) { c.Do(func() { delete(c.instances, name) }) }

// Aliases returns the aliases of an instance.
func (c *Cloud) Aliases(name string) (all []string) {
	c.Do(func() {
		if i := c.instances[name]; i != nil {
			for _, a := range i.Aliases {
				all = append(all, a.Range.String())
			}
		}
	})
	return all
}

// Reads counts the calls of Instances.
func (c *Cloud) Reads() (n int) {
	c.Do(func() { n = c.reads })
	return n
}

// Changes counts the requested changes.
func (c *Cloud) Changes() (n int) {
	c.Do(func() { n = c.changes })
	return n
}

func (c *Cloud) touch(i *cloud.Instance) {
	c.versions++
	i.Version = fmt.Sprint("v", c.versions)
}

// Instances implements cloudipam.Cloud.
func (c *Cloud) Instances(ctx context.Context, ids []string) (map[string]cloud.Instance, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reads++
	found := make(map[string]cloud.Instance)
	var failed error
	for _, id := range ids {
		name, ok := strings.CutPrefix(id, "fake://")
		i := c.instances[name]
		switch {
		case c.Unreadable[name]:
			failed = &cloud.Error{Kind: cloud.Denied, Action: "instances.list", Text: "no permission for " + name}
		case !ok || i == nil:
			found[id] = cloud.Instance{Problem: "there is no instance " + name + "; delete the Node if its machine is gone"}
		default:
			v := *i
			v.Aliases = slices.Clone(i.Aliases)
			found[id] = v
		}
	}
	return found, errors.Join(failed, ctx.Err())
}

// AddAlias implements cloudipam.Cloud.
func (c *Cloud) AddAlias(_ context.Context, change cloud.Change) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changes++
	if c.Fail != nil {
		if err := c.Fail(change); err != nil {
			return err
		}
	}
	if err := c.add(change); err != nil {
		return err
	}
	if c.Lose != nil {
		return c.Lose(change)
	}
	return nil
}

func (c *Cloud) add(change cloud.Change) error {
	i := c.instances[strings.TrimPrefix(change.ID, "fake://")]
	refuse := func(k cloud.Kind, text string) error {
		return &cloud.Error{Kind: k, Action: "instances.updateNetworkInterface", Text: text}
	}
	switch {
	case i == nil:
		return refuse(cloud.Missing, "there is no such instance")
	case c.made[change.Request], slices.Contains(i.Aliases, change.Add):
		return nil
	case i.Version != change.Version:
		return refuse(cloud.Changed, "the interface has changed")
	}
	for _, other := range c.instances {
		for _, a := range other.Aliases {
			if a.Range.Overlaps(change.Add.Range) {
				return refuse(cloud.Taken, "the range is in use")
			}
		}
	}
	i.Aliases = append(i.Aliases, change.Add)
	c.made[change.Request] = true
	c.touch(i)
	return nil
}
