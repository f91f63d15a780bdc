package daemon

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/tulle-net/tulle/network"
	"github.com/tulle-net/tulle/pkg/dataplane/udp"
	"github.com/tulle-net/tulle/pkg/keepfile"
	"github.com/tulle-net/tulle/pkg/options"
	"github.com/tulle-net/tulle/pkg/runner"
	"github.com/tulle-net/tulle/pkg/status"
	"github.com/tulle-net/tulle/pkg/trouble"
)

// reporter answers status requests, on the socket and over HTTP.
type reporter struct {
	*network.Agent
	options options.Options
	version string
	store   Store
	is      status.Store // what it is
	etcd    *ownEtcd     // nil if the store is elsewhere
	socket  *keepfile.Keeper
	packets *udp.Engine
	runner  *runner.Runner
	started time.Time
}

// Report implements status.Source. Only root may read it, so it names the files that
// are open to other users.
func (r reporter) Report(ctx context.Context) status.Report {
	report := r.report(r.FullView(ctx))
	report.Exposed = r.options.Exposed()
	return report
}

// report returns the report of v, with what the agent does not know.
func (r reporter) report(v network.View) status.Report {
	report := v.Report()
	report.Version, report.Started, report.Flags = r.version, r.started, r.options.Given
	s := r.store.Status()
	if report.Lease != nil && !s.Renewed.IsZero() {
		report.Lease.Renewed = &s.Renewed
	}
	report.Store = r.is
	if report.Store.Etcd = r.etcd.report(); report.Store.Etcd != nil {
		report.Store.Etcd.Ignored = r.options.Ignored(v.Config)
	}
	report.Store.Revision = s.Revision
	if !s.Watching.IsZero() {
		report.Store.Watching = &s.Watching
	}
	if s.Last != (trouble.Trouble{}) {
		report.Store.Last, report.Store.LastAt = &status.Problem{What: s.Last.What, Why: s.Last.Why}, &s.Last.At
	}
	for _, what := range slices.Sorted(maps.Keys(s.Failing)) {
		report.Store.Failing = append(report.Store.Failing, status.Problem{What: what, Why: s.Failing[what]})
	}
	report.Network.Moved = moved(r.packets)
	report.Commands = commandsOf(r.runner.Status())
	report.AddFiles(r.socket.Failing(), r.socket.Fights())
	report.OnClock(v.At)
	return report
}

// moved returns what an engine has moved through its tunnels.
func moved(engine *udp.Engine) (all []status.Moved) {
	counts := engine.Counts()
	for _, device := range slices.Sorted(maps.Keys(counts)) {
		c := counts[device]
		m := status.Moved{
			Device: device, PacketsOut: c.PacketsOut, BytesOut: c.BytesOut, PacketsIn: c.PacketsIn, BytesIn: c.BytesIn,
			Dropped: make(map[string]uint64),
		}
		for _, why := range udp.Reasons() {
			m.Dropped[why.String()] = c.Dropped[why]
		}
		all = append(all, m)
	}
	return all
}
