package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"
	"time"

	"k8s.io/klog/v2"
	"sigs.k8s.io/yaml"

	"github.com/tulle-net/tulle/network"
	"github.com/tulle-net/tulle/pkg/options"
	"github.com/tulle-net/tulle/pkg/status"
	"github.com/tulle-net/tulle/pkg/trouble"
)

// reporter is the daemon as it is told of to who asks.
type reporter struct {
	*network.Agent
	store   store
	is      status.Store // what it is
	started time.Time
}

// Report implements status.Source.
func (r reporter) Report(ctx context.Context) (status.Report, error) {
	report, err := r.Agent.Report(ctx)
	report.Version, report.Started = version, r.started
	s := r.store.Status()
	if report.Lease != nil && !s.Renewed.IsZero() {
		report.Lease.Renewed = &s.Renewed
	}
	report.Store = r.is
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
	return report, err
}

// serveStatus answers until ctx ends. Without it the network is none the worse.
func serveStatus(ctx context.Context, path string, s status.Source) {
	if err := status.Serve(ctx, path, s); err != nil {
		klog.ErrorS(err, "tulled status will have no answer")
	}
}

// errNotReady ends a status of a daemon that is not ready.
var errNotReady = errors.New("not ready")

// ask asks the daemon on this host.
func ask(o options.Options, out io.Writer) error {
	client, ctx := status.Dial(o.StatusSocket), context.Background()
	switch o.Command {
	case options.Peers:
		peers, err := client.Peers(ctx)
		if err != nil {
			return err
		}
		return answer(o.Output, out, peers, func() error { return status.WritePeers(out, peers, time.Now()) })
	case options.Explain:
		e, err := client.Explain(ctx, o.Address)
		if err != nil {
			return err
		}
		return answer(o.Output, out, e, func() error { return status.WriteExplanation(out, e) })
	}
	r, err := client.Report(ctx)
	if err == nil {
		err = answer(o.Output, out, r, func() error { return status.WriteReport(out, r, time.Now()) })
	}
	if err == nil && !r.Ready {
		err = errNotReady
	}
	return err
}

// answer writes what in a format.
func answer(f options.Format, out io.Writer, what any, text func() error) error {
	if f == options.Text {
		return text()
	}
	written, err := json.MarshalIndent(what, "", "  ")
	if err != nil {
		return err
	}
	written = append(written, '\n')
	if f == options.YAML {
		if written, err = yaml.JSONToYAML(written); err != nil {
			return err
		}
	}
	_, err = out.Write(written)
	return err
}
