package cloudtest

import (
	"context"
	"net/netip"
	"slices"
	"sync"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/subnet"
)

// Routes is a fake of a cloud's route tables with quotas and blackholes that injects faults.
// Its routes lead to the instances of a Fleet. Set its fields inside Do.
type Routes struct {
	Fleet  *Fleet
	mu     sync.Mutex
	tables map[string]map[netip.Prefix]cloud.Route

	reads   int
	changes []cloud.RouteChange
	forward []string

	// Quota is the quota of every table. Hidden is the number of routes of each family that
	// the cloud allows, for tests in which Quota is unknown; 0 is no limit.
	Quota  cloud.Quota
	Hidden int
	// Unreadable is the error of every read of the tables.
	Unreadable error
	// Fail, if set, is called before a change. If it returns an error, the change is not
	// made.
	Fail func(c cloud.RouteChange) error
	// Lose, if set, is called after a change. If it returns an error, the caller gets that
	// error.
	Lose func(c cloud.RouteChange) error
	// Hold, if set, returns the channel that a change waits for.
	Hold func(c cloud.RouteChange) <-chan struct{}
	// NoForward is the error of Forward.
	NoForward error
	// Before, if set, is called before a change is made.
	Before func(c cloud.RouteChange)
}

// NewRoutes returns tables that lead to the instances of a Fleet. Each has the routes of
// the network itself and to the internet.
func NewRoutes(f *Fleet, tables ...string) *Routes {
	r := &Routes{Fleet: f, tables: make(map[string]map[netip.Prefix]cloud.Route)}
	for _, id := range tables {
		r.tables[id] = make(map[netip.Prefix]cloud.Route)
		r.Put(id, cloud.Route{Destination: netip.MustParsePrefix("172.20.0.0/16"), Kind: cloud.ToLocal, Target: "local", Origin: cloud.WithTable})
		r.Put(id, cloud.Route{Destination: netip.MustParsePrefix("0.0.0.0/0"), Kind: cloud.ToGateway, Target: "igw-1"})
	}
	return r
}

// Do calls f while no request runs.
func (r *Routes) Do(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
}

// Put writes a route, as a person or another program does.
func (r *Routes) Put(table string, v cloud.Route) {
	if v.Origin == "" {
		v.Origin = cloud.Created
	}
	v.To = v.Destination.String()
	r.Do(func() { r.tables[table][v.Destination] = v })
}

// Delete removes a route, as a person or another program does.
func (r *Routes) Delete(table, destination string) {
	r.Do(func() { delete(r.tables[table], netip.MustParsePrefix(destination)) })
}

// Targets returns the interfaces that the routes of a table lead to, by destination.
func (r *Routes) Targets(table string) map[string]string {
	all := make(map[string]string)
	r.Do(func() {
		for p, v := range r.tables[table] {
			if v.Kind == cloud.ToInterface {
				all[p.String()] = v.Target
			}
		}
	})
	return all
}

// Reads counts the reads of the tables.
func (r *Routes) Reads() (n int) {
	r.Do(func() { n = r.reads })
	return n
}

// Changes returns the requested changes.
func (r *Routes) Changes() (all []cloud.RouteChange) {
	r.Do(func() { all = slices.Clone(r.changes) })
	return all
}

// Forwarded returns the instances for which Forward was called.
func (r *Routes) Forwarded() (all []string) {
	r.Do(func() { all = slices.Clone(r.forward) })
	return all
}

// Tables implements route.Cloud.
func (r *Routes) Tables(ctx context.Context) (all []cloud.Table, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reads++
	if r.Unreadable != nil {
		return nil, r.Unreadable
	}
	for id, routes := range r.tables {
		t := cloud.Table{ID: id, Name: "name of " + id, Network: "net-1", Ours: "tag fake", Quota: r.Quota}
		for _, v := range routes {
			t.Routes = append(t.Routes, r.describe(v))
		}
		all = append(all, t)
	}
	return all, ctx.Err()
}

// describe returns a route as the cloud shows it now.
func (r *Routes) describe(v cloud.Route) cloud.Route {
	v.State = cloud.Active
	if v.Kind != cloud.ToInterface {
		return v
	}
	v.Instance, v.State = "", cloud.Blackhole
	r.Fleet.Do(func() {
		for _, i := range r.Fleet.instances {
			if i.Interface == v.Target && i.State == cloud.Running {
				v.Instance, v.State = i.ID, cloud.Active
			}
		}
	})
	return v
}

// Instances implements route.Cloud.
func (r *Routes) Instances(ctx context.Context, ids []string) (map[string]cloud.Instance, error) {
	return r.Fleet.Instances(ctx, ids)
}

// Forward implements route.Cloud.
func (r *Routes) Forward(_ context.Context, i cloud.Instance) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forward = append(r.forward, i.ID)
	if r.NoForward != nil {
		return r.NoForward
	}
	r.Fleet.Do(func() {
		for _, known := range r.Fleet.instances {
			if known.ID == i.ID {
				known.Forwards = true
			}
		}
	})
	return nil
}

// ChangeRoutes implements route.Cloud.
func (r *Routes) ChangeRoutes(ctx context.Context, changes []cloud.RouteChange) (errs []error) {
	for _, c := range changes {
		errs = append(errs, r.change(ctx, c))
	}
	return errs
}

func (r *Routes) change(ctx context.Context, c cloud.RouteChange) error {
	var hold <-chan struct{}
	r.Do(func() {
		if r.changes = append(r.changes, c); r.Hold != nil {
			hold = r.Hold(c)
		}
	})
	if hold != nil {
		select {
		case <-hold: // the change is made, even if no caller waits for it
		case <-ctx.Done():
			go func() { <-hold; r.Do(func() { _ = r.make(c) }) }()
			return ctx.Err()
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.Before != nil {
		r.Before(c)
	}
	if r.Fail != nil {
		if err := r.Fail(c); err != nil {
			return err
		}
	}
	if err := r.make(c); err != nil {
		return err
	}
	if r.Lose != nil {
		return r.Lose(c)
	}
	return nil
}

// make makes a change. It refuses to change a route that is not the expected one.
func (r *Routes) make(c cloud.RouteChange) error {
	refuse := func(k cloud.Kind, text string) error {
		return &cloud.Error{Kind: k, Action: string(c.Verb), Text: text}
	}
	routes := r.tables[c.Table]
	was, there := routes[c.Destination]
	of := cloud.Table{Quota: cloud.Quota{}}
	for _, v := range routes {
		of.Routes = append(of.Routes, v)
	}
	most := r.Hidden
	if n := r.Quota.Most[subnet.FamilyOf(c.Destination.Addr())]; n > 0 {
		most = n
	}
	switch {
	case routes == nil:
		return refuse(cloud.Missing, "there is no such table")
	case c.Verb == cloud.Add && there && was.Target != c.Interface:
		return refuse(cloud.Changed, "the route exists")
	case c.Verb != cloud.Add && !there:
		return refuse(cloud.Missing, "there is no such route")
	case c.Verb != cloud.Add && was.Target != c.Was.Target:
		return refuse(cloud.Changed, "the route leads to another target")
	case c.Verb == cloud.Add && !there && most > 0 && of.Used(subnet.FamilyOf(c.Destination.Addr())) >= most:
		return refuse(cloud.Full, "the quota of routes is used up")
	case c.Verb == cloud.Remove:
		delete(routes, c.Destination)
	default:
		routes[c.Destination] = cloud.Route{Destination: c.Destination, To: c.Destination.String(), Kind: cloud.ToInterface, Target: c.Interface, Origin: cloud.Created}
	}
	return nil
}
