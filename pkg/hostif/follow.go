package hostif

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/pkg/retry"
	"github.com/tulle-net/tulle/pkg/trouble"
	"github.com/tulle-net/tulle/subnet"
)

const (
	// settle is the delay between an event and the survey that it causes. The rest of the
	// burst comes meanwhile: an address is often replaced in several steps.
	settle = 100 * time.Millisecond
	// again is the wait before the next request to a kernel that failed.
	again = time.Second
)

// Follow calls to with the host's interfaces, at once and after every change, until
// ctx ends. The error is nil, or joins a *NoUplinkError for each family that is on
// and has no uplink at present. Such a family keeps its last uplink, because an
// unplugged cable changes nothing for the other hosts. A family that never had an
// uplink has none in Interfaces either. Calls do not overlap, and must not change the
// lists in Interfaces.
//
// The kernel's events only cause another survey. Follow returns a *SettingError at
// once. It logs every other error and retries.
func Follow(ctx context.Context, source Source, spec Spec, to func(Interfaces, error)) error {
	if err := spec.Check(); err != nil {
		return err
	}
	f := &follower{
		source: source, spec: spec, to: to, last: spec.Last,
		filter: filter{spec: spec, look: retry.NewWakeup()},
	}
	var watching sync.WaitGroup
	defer watching.Wait()
	watching.Go(func() { f.watch(ctx) })
	looking := trouble.Outcome{Failed: "Failed to survey the host's interfaces; retrying", Works: "Surveyed the host's interfaces again"}
	for ctx.Err() == nil {
		err := f.update(ctx)
		if ctx.Err() != nil {
			break
		}
		if looking.Was(err); err != nil {
			retry.Sleep(ctx, again)
			continue
		}
		select {
		case <-ctx.Done():
		case <-f.filter.look:
			retry.Sleep(ctx, settle)
		}
	}
	return ctx.Err()
}

// follower is one running Follow.
type follower struct {
	source Source
	spec   Spec
	to     func(Interfaces, error)
	filter filter

	last     subnet.Pair[netip.Addr]
	host     Interfaces // as last reported, with the last uplink of each family
	missing  subnet.Pair[*NoUplinkError]
	reported bool
}

// update chooses again, and reports a change.
func (f *follower) update(ctx context.Context) error {
	f.filter.begin()
	view, err := Survey(ctx, f.source, f.spec)
	if err != nil {
		return err
	}
	f.filter.end(view)
	host := f.spec.host(view)
	host.Uplinks = f.host.Uplinks
	spec, same := f.spec, f.reported
	spec.Last = f.last
	var failed error
	for _, family := range subnet.Families {
		if !spec.Networks[family].IsValid() {
			continue
		}
		u, missing := choose(view, spec, family)
		f.report(family, u, missing)
		if missing == nil {
			host.Uplinks[family], f.last[family] = u, u.Address
		} else {
			failed = errors.Join(failed, missing)
		}
		host.Holds[family] = view.holds(host.Uplinks[family])
		host.Gateways[family] = view.gateway(family, host.Uplinks[family])
		same = same && missing.same(f.missing[family])
		f.missing[family] = missing
	}
	same = same && host.same(f.host)
	f.host, f.reported = host, true
	if !same {
		f.to(host, failed)
	}
	return nil
}

// report logs what has changed for a family.
func (f *follower) report(family subnet.Family, u Uplink, missing *NoUplinkError) {
	before, lost := f.host.Uplinks[family], f.missing[family] != nil
	switch {
	case missing != nil && lost:
	case missing != nil && before.IsValid():
		klog.InfoS("Uplink lost; keeping the last one", "family", family, "link", before.Link, "address", before.Address, "reason", missing)
	case missing != nil:
		klog.ErrorS(missing, "No uplink; waiting for one", "family", family)
	case !u.same(before):
		klog.InfoS("Chose the uplink", "family", family, "link", u.Link, "address", u.Address, "public", u.Public, "mtu", u.MTU, "why", u.Why)
	case lost:
		klog.InfoS("Uplink usable again", "family", family, "link", u.Link, "address", u.Address)
	}
}

// watch passes every event to the filter.
func (f *follower) watch(ctx context.Context) {
	watching := trouble.Outcome{Failed: "Failed to watch the host's interfaces; retrying", Works: "Watching the host's interfaces again"}
	for ctx.Err() == nil {
		err := f.source.WatchHost(ctx, func(e netstate.Event) {
			watching.Was(nil)
			f.filter.take(e)
		})
		if ctx.Err() != nil {
			return
		}
		watching.Was(err)
		retry.Sleep(ctx, again)
	}
}
