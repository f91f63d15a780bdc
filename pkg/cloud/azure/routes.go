package azure

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/tulle-net/tulle/pkg/cloud"
)

const (
	// gather is how long the first change waits for others. Later ones gather while a
	// write is under way.
	gather = 50 * time.Millisecond
	// mostConflicts is how often a write begins again because the table changed meanwhile.
	mostConflicts = 6
	// mostRefusals is how many changes in a row Azure may refuse when each is written alone.
	// Then the others of the round are not tried: what it refuses is not about one route.
	mostRefusals = 8
	// writeLimit is how long the changes of one round may take.
	writeLimit = 10 * time.Minute
)

// editor writes the route table. All changes that wait become one write.
type editor struct {
	c *Client

	mu      sync.Mutex
	waiting []*edit
	flying  map[cloud.RouteChange]*edit
	runs    bool

	refusals int // in a row; only run uses it
}

// edit is a change that waits or is being made.
type edit struct {
	cloud.RouteChange
	done chan struct{} // closed when err is set
	err  error
}

// ChangeRoutes makes changes, and returns the error of each. All changes of a moment become
// one write of the table, which Azure makes only if the table is as it was read. A change
// whose caller stops waiting is made nevertheless; its error is Pending.
func (c *Client) ChangeRoutes(ctx context.Context, changes []cloud.RouteChange) []error {
	errs := make([]error, len(changes))
	for i, change := range changes {
		errs[i] = c.checkChange(change)
	}
	edits := c.editor.add(changes, errs)
	for i, e := range edits {
		if e == nil {
			continue
		}
		select {
		case <-e.done:
			errs[i] = e.err
		case <-ctx.Done():
			errs[i] = &cloud.Error{Kind: cloud.Pending, Action: writeTable, Text: fmt.Sprintf("Azure still writes the table %s; the route comes with that write, or later", c.config.Table)}
		}
	}
	return errs
}

// checkChange returns why a change cannot be made.
func (c *Client) checkChange(r cloud.RouteChange) error {
	refuse := func(format string, args ...any) error {
		return &cloud.Error{Kind: cloud.Refused, Action: writeTable, Text: fmt.Sprintf(format, args...)}
	}
	hop, err := netip.ParseAddr(r.Interface)
	switch {
	case r.Verb != cloud.Add && r.Verb != cloud.Replace && r.Verb != cloud.Remove:
		return refuse("unknown verb %q", r.Verb)
	case r.Table != c.tableKey():
		return refuse("%.200q is not the table of the cloud config, %s", r.Table, c.config.Table)
	case !r.Destination.IsValid() || r.Destination != r.Destination.Masked():
		return refuse("%s is no destination", r.Destination)
	case r.Verb == cloud.Remove:
		return nil
	case err != nil || hop.Zone() != "" || hop.Is4() != r.Destination.Addr().Is4():
		return refuse("%.80q is no next hop for %s; the interface of %s needs a private address of that family", r.Interface, r.Destination, r.Instance)
	case !hostName.MatchString(nameOf(r.For)):
		return refuse("%.80q is no node's name, which the route to %s is named for", r.For, r.Destination)
	}
	return nil
}

// add adds the changes that have no error. One that is being made is not made twice.
func (e *editor) add(changes []cloud.RouteChange, errs []error) []*edit {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.flying == nil {
		e.flying = make(map[cloud.RouteChange]*edit)
	}
	edits := make([]*edit, len(changes))
	for i, change := range changes {
		if errs[i] != nil {
			continue
		}
		x := e.flying[change]
		if x == nil {
			x = &edit{RouteChange: change, done: make(chan struct{})}
			e.flying[change] = x
			e.waiting = append(e.waiting, x)
		}
		edits[i] = x
	}
	if len(e.waiting) > 0 && !e.runs {
		e.runs = true
		time.AfterFunc(gather, e.run)
	}
	return edits
}

// run makes the changes that wait, until there are none. Only one run is under way.
func (e *editor) run() {
	for {
		e.mu.Lock()
		edits := e.waiting
		e.waiting = nil
		if e.runs = len(edits) > 0; !e.runs {
			e.mu.Unlock()
			return
		}
		e.mu.Unlock()
		// What needs no room comes first.
		slices.SortStableFunc(edits, func(x, y *edit) int { return cmp.Compare(needsRoom(x), needsRoom(y)) })
		ctx, cancel := context.WithTimeout(context.Background(), writeLimit)
		e.refusals = 0
		e.write(ctx, edits)
		cancel()
		e.mu.Lock()
		for _, x := range edits {
			delete(e.flying, x.RouteChange)
			close(x.done)
		}
		e.mu.Unlock()
	}
}

// needsRoom returns 1 for a change that adds a route, and 0 for others.
func needsRoom(x *edit) int {
	if x.Verb == cloud.Add {
		return 1
	}
	return 0
}

// write makes changes in one write, and sets the error of each. If Azure refuses that
// write, each half is written alone, so that no route keeps others back.
func (e *editor) write(ctx context.Context, edits []*edit) {
	if len(edits) == 0 {
		return
	}
	err := e.put(ctx, edits)
	if err == nil {
		e.refusals = 0
		return
	}
	kind := cloud.KindOf(err)
	if kind == cloud.Refused && len(edits) == 1 {
		e.refusals++
	}
	if len(edits) > 1 && (kind == cloud.Refused || kind == cloud.Full) {
		half := len(edits) / 2
		e.write(ctx, edits[:half])
		if full := edits[half-1].err; full != nil && cloud.KindOf(full) == cloud.Full {
			// Where one route has no room, none of the later ones has.
			for _, x := range edits[half:] {
				x.err = full
			}
			return
		}
		if e.refusals >= mostRefusals {
			for _, x := range edits[half:] {
				x.err = err
			}
			return
		}
		e.write(ctx, edits[half:])
		return
	}
	for _, x := range edits {
		if x.err == nil {
			x.err = err
		}
	}
}

// put reads the table, and writes it with the changes. The error is that of all changes
// that have none of their own.
func (e *editor) put(ctx context.Context, edits []*edit) error {
	for conflicts := 1; ; conflicts++ {
		t, err := e.c.readTable(ctx)
		if err != nil {
			return err
		}
		if !t.apply(edits) {
			return nil
		}
		err = e.c.put(ctx, writeTable, e.c.tablePath(), networkVersion, t.etag(), t.text())
		if cloud.KindOf(err) != cloud.Changed || conflicts == mostConflicts || !e.c.wait(ctx, err, conflicts) {
			return err
		}
	}
}

// apply makes changes in a table that was read, and reports whether it must be written. A
// change that does not fit the table any more gets an error.
func (t *routeTable) apply(edits []*edit) (dirty bool) {
	for _, x := range edits {
		changed, err := t.change(x.RouteChange)
		dirty, x.err = dirty || changed, err
	}
	return dirty
}

// change makes one change, and reports whether it changed anything.
func (t *routeTable) change(r cloud.RouteChange) (bool, error) {
	i, has := t.place[r.Destination]
	if !has {
		switch r.Verb {
		case cloud.Remove:
			return false, nil
		case cloud.Replace:
			return false, changed("route %s has gone since it was read; reading the table again", r.Destination)
		}
		t.add(newRoute(t.routeName(r.For, r.Destination), r.Destination, r.Interface))
		return true, nil
	}
	now := t.rows[i].route
	is := func(target string) bool { return now.Kind == cloud.ToInterface && now.Target == target }
	switch {
	case r.Verb == cloud.Remove && is(r.Was.Target):
		t.remove(i)
		return true, nil
	case r.Verb != cloud.Remove && is(r.Interface):
		return t.isFailed(), nil // written once more, if the last write failed
	case r.Verb == cloud.Replace && is(r.Was.Target):
		t.redirect(i, r)
		return true, nil
	case r.Verb == cloud.Add:
		return false, changed("route %s leads to %s; reading the table again", r.Destination, now)
	}
	return false, changed("route %s leads to %s now, and not to %s; reading the table again", r.Destination, now, r.Was)
}

// redirect gives a route another next hop. It keeps everything else, and its name if that is
// the node's.
func (t *routeTable) redirect(i int, r cloud.RouteChange) {
	was := t.rows[i].document
	if t.remove(i); !isOf(was.text("name"), r.For) {
		t.add(newRoute(t.routeName(r.For, r.Destination), r.Destination, r.Interface))
		return
	}
	p := was.object("properties")
	p.set("nextHopIpAddress", r.Interface)
	was.set("properties", p)
	t.add(was)
}

func changed(format string, args ...any) error {
	return &cloud.Error{Kind: cloud.Changed, Action: writeTable, Text: fmt.Sprintf(format, args...)}
}
