package azure

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync"

	"github.com/tulle-net/tulle/pkg/cloud"
)

const (
	// few is how many machines of a group are read one by one. More are read as a list.
	few = 3
	// mostReads is how many reads of single resources run at once.
	mostReads = 16
)

// place is where machines are: a resource group, and a scale set or "".
type place struct{ subscription, group, set string }

// want is what to read in one place: some machines by their keys, or all of them.
type want struct {
	place
	ids map[string]machineID // nil is all
}

// found is what was read in one place, by the keys of machines. A machine that Azure says
// does not exist is in gone.
type found struct {
	all  map[string]facts
	gone map[string]bool
}

// readPlace reads machines of one place, with their interfaces and addresses.
func (c *Client) readPlace(ctx context.Context, w want) (f found, err error) {
	f = found{all: make(map[string]facts), gone: make(map[string]bool)}
	lists := w.ids == nil || len(w.ids) > c.few
	if lists {
		if err = c.listMachines(ctx, w, &f); err != nil {
			// Without its state, a machine would look as if it ran.
			maps.DeleteFunc(f.all, func(_ string, v facts) bool { return v.Properties.View == nil })
			return f, errors.Join(err, c.readNetwork(ctx, w.place, lists, f.all))
		}
	}
	// One that the list lacks, or that there is no list for, is asked for by its name.
	var missing []machineID
	for key, id := range w.ids {
		if _, has := f.all[key]; !has {
			missing = append(missing, id)
		}
	}
	var mu sync.Mutex
	err = each(missing, func(id machineID) error {
		m, err := c.readMachine(ctx, id)
		mu.Lock()
		defer mu.Unlock()
		if cloud.KindOf(err) == cloud.Missing && err != nil {
			f.gone[id.key()] = true
			return nil
		}
		if err == nil {
			f.all[id.key()] = m
		}
		return err
	})
	return f, errors.Join(err, c.readNetwork(ctx, w.place, lists, f.all))
}

// machinesPath returns the path of a place's machines.
func (p place) machinesPath(rest ...string) string {
	if p.set != "" {
		return inGroup(p.subscription, p.group, "Microsoft.Compute", append([]string{setType, p.set, machineType}, rest...)...)
	}
	return inGroup(p.subscription, p.group, "Microsoft.Compute", append([]string{machineType}, rest...)...)
}

func (p place) action() string {
	if p.set != "" {
		return readSetMachine
	}
	return readMachine
}

// readMachine reads one machine.
func (c *Client) readMachine(ctx context.Context, id machineID) (facts, error) {
	p := place{id.subscription, id.group, id.set}
	m, err := get[machine](ctx, c, p.action(), p.machinesPath(id.name), computeVersion, "$expand", "instanceView")
	if err != nil {
		return facts{}, err
	}
	is, ok := parsePath(m.ID)
	if !ok || is.key() != id.key() {
		return facts{}, strange(p.action(), "machine", m.ID)
	}
	return facts{machine: m, id: is}, nil
}

// listMachines reads all machines of a place. Where it reads some of a group only, it
// drops the others.
func (c *Client) listMachines(ctx context.Context, w want, f *found) error {
	var query []string
	if w.set != "" {
		query = []string{"$expand", "instanceView"}
	}
	all, err := list[machine](ctx, c, w.action(), w.machinesPath(), computeVersion, query...)
	if cloud.KindOf(err) == cloud.Missing {
		return nil // each machine is asked for by its name
	}
	if err != nil {
		return err
	}
	for _, m := range all {
		id, ok := parsePath(m.ID)
		if !ok || id.set != "" && !strings.EqualFold(id.set, w.set) || !strings.EqualFold(id.group, w.group) {
			return strange(w.action(), "machine", m.ID)
		}
		if _, wanted := w.ids[id.key()]; wanted || w.ids == nil {
			f.all[id.key()] = facts{machine: m, id: id}
		}
	}
	if w.set == "" {
		return c.readStates(ctx, w.place, f.all)
	}
	return nil
}

// readStates reads the power states of virtual machines, which lists of a group lack. The
// list that has them is one of the subscription: without the right to read that, each
// machine is read.
func (c *Client) readStates(ctx context.Context, p place, all map[string]facts) error {
	if len(all) == 0 {
		return nil
	}
	if len(all) > c.few {
		at := path("subscriptions", p.subscription, "providers", "Microsoft.Compute", machineType)
		views, err := list[machine](ctx, c, readMachine, at, computeVersion, "statusOnly", "true")
		if err != nil && cloud.KindOf(err) != cloud.Denied {
			return err
		}
		for _, m := range views {
			if id, ok := parsePath(m.ID); ok && m.Properties.View != nil {
				if f, wanted := all[id.key()]; wanted {
					f.Properties.View = m.Properties.View
					all[id.key()] = f
				}
			}
		}
	}
	var without []machineID
	for _, f := range all {
		if f.Properties.View == nil {
			without = append(without, f.id)
		}
	}
	var mu sync.Mutex
	return each(without, func(id machineID) error {
		m, err := c.readMachine(ctx, id)
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err == nil:
			all[id.key()] = m
		case cloud.KindOf(err) == cloud.Missing:
			delete(all, id.key()) // gone since the list
			return nil
		default:
			delete(all, id.key()) // without its state, it is unknown
		}
		return err
	})
}

// each calls f with every item, mostReads at a time. It begins no other after a failure that
// the others would share.
func each[T any](items []T, f func(T) error) error {
	var mu sync.Mutex
	var running sync.WaitGroup
	var first error
	free := make(chan struct{}, mostReads)
	for _, item := range items {
		free <- struct{}{}
		mu.Lock()
		stop := first != nil
		mu.Unlock()
		if stop {
			break
		}
		running.Go(func() {
			defer func() { <-free }()
			if err := f(item); err != nil {
				mu.Lock()
				defer mu.Unlock()
				if first == nil {
					first = err
				}
			}
		})
	}
	running.Wait()
	return first
}

// readNetwork reads the primary interfaces of machines, and their public addresses. A
// machine whose interface cannot be read is unknown.
func (c *Client) readNetwork(ctx context.Context, p place, lists bool, all map[string]facts) error {
	nics := make(map[string]networkInterface)
	var failed error
	if lists && len(all) > 0 {
		nics, failed = c.listInterfaces(ctx, p)
	}
	var mu sync.Mutex
	err := each(keysOf(all), func(key string) error {
		mu.Lock()
		f := all[key]
		nic, has := nics[strings.ToLower(f.primary())]
		mu.Unlock()
		var err error
		if !has && f.primary() != "" {
			nic, err = c.readInterface(ctx, f)
			// An interface may be gone before its machine is.
			if has = err == nil; cloud.KindOf(err) == cloud.Missing && err != nil {
				err = nil
			}
		}
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			delete(all, key)
			return err
		}
		if has {
			f.nic = &nic
			all[key] = f
		}
		return nil
	})
	if err != nil {
		// Without its interface, a machine would look as if it had none.
		maps.DeleteFunc(all, func(_ string, f facts) bool { return f.nic == nil && f.primary() != "" })
	}
	return errors.Join(failed, err, c.readPublic(ctx, p, lists, all))
}

func keysOf(all map[string]facts) (keys []string) {
	for k := range all {
		keys = append(keys, k)
	}
	return keys
}

// listInterfaces reads all interfaces of a place, by the small letters of their IDs.
func (c *Client) listInterfaces(ctx context.Context, p place) (map[string]networkInterface, error) {
	at, version, action := inGroup(p.subscription, p.group, "Microsoft.Network", "networkInterfaces"), networkVersion, readInterface
	if p.set != "" {
		at, version, action = inGroup(p.subscription, p.group, "Microsoft.Compute", setType, p.set, "networkInterfaces"), setNetworkVersion, readSetNetwork
	}
	all, err := list[networkInterface](ctx, c, action, at, version)
	byID := make(map[string]networkInterface, len(all))
	for _, n := range all {
		byID[strings.ToLower(n.ID)] = n
	}
	return byID, err
}

// readInterface reads the primary interface of a machine.
func (c *Client) readInterface(ctx context.Context, f facts) (n networkInterface, err error) {
	id, ok := parseInterface(f.primary())
	if !ok {
		return n, strange(readInterface, "network interface", f.primary())
	}
	action, at, version := readInterface, inGroup(id.subscription, id.group, "Microsoft.Network", "networkInterfaces", id.name), networkVersion
	if id.set != "" {
		action, version = readSetNetwork, setNetworkVersion
		at = inGroup(id.subscription, id.group, "Microsoft.Compute", setType, id.set, machineType, id.index, "networkInterfaces", id.name)
	}
	if n, err = get[networkInterface](ctx, c, action, at, version); err == nil && !strings.EqualFold(n.ID, f.primary()) {
		err = strange(action, "network interface", n.ID)
	}
	return n, err
}

// readPublic reads the public addresses of machines, where an interface has one.
func (c *Client) readPublic(ctx context.Context, p place, lists bool, all map[string]facts) error {
	need := false
	for _, f := range all {
		need = need || f.nic != nil && len(f.nic.publicIPs()) > 0
	}
	if !need {
		return nil
	}
	at, version, action := inGroup(p.subscription, p.group, "Microsoft.Network", "publicIPAddresses"), networkVersion, readPublicIP
	if p.set != "" {
		at, version, action = inGroup(p.subscription, p.group, "Microsoft.Compute", setType, p.set, "publicIPAddresses"), setNetworkVersion, readSetPublic
	}
	listed, err := list[publicIP](ctx, c, action, at, version)
	if err != nil {
		// Without its public address, a Node would lose it.
		maps.DeleteFunc(all, func(_ string, f facts) bool { return f.nic != nil && len(f.nic.publicIPs()) > 0 })
		return err
	}
	public := make(map[string]string, len(listed))
	for _, a := range listed {
		public[strings.ToLower(a.ID)] = a.Properties.Address
	}
	for key, f := range all {
		f.public = public
		all[key] = f
	}
	return nil
}
