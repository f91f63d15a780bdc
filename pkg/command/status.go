package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/tulle-net/tulle/pkg/answer"
	"github.com/tulle-net/tulle/pkg/options"
	"github.com/tulle-net/tulle/pkg/status"
)

const (
	// waitInterval is the poll interval of --wait, and watchInterval that of --watch.
	waitInterval  = 250 * time.Millisecond
	watchInterval = time.Second
)

// showStatus writes the status of this host's daemon: once, or with --watch until ctx
// ends.
func showStatus(ctx context.Context, o options.Options, out io.Writer) error {
	client := status.Dial(o.StatusSocket, options.Name("status-socket"))
	r, err := awaitReady(ctx, client, o.Wait)
	if !o.Watch {
		return writeStatus(o, out, client, r, err)
	}
	t := terminalOf(out, os.Getenv)
	ticks := time.NewTicker(watchInterval)
	defer ticks.Stop()
	for {
		var frame bytes.Buffer
		if err := writeStatus(o, &frame, client, r, err); err != nil && !errors.Is(err, errFailing) {
			fmt.Fprintln(&frame, "tulled:", err)
		}
		text := frame.String()
		if t.is && o.Output == answer.Text {
			text = cleared + t.report(text)
		} else if o.Output == answer.Text {
			text += "\n"
		}
		if _, err := io.WriteString(out, text); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticks.C:
		}
		r, err = client.Report(ctx)
	}
}

// writeStatus writes a report, or returns why there is none.
func writeStatus(o options.Options, out io.Writer, client *status.Client, r status.Report, err error) error {
	if err != nil {
		return err
	}
	err = answer.Write(o.Output, out, "status", r, func() error {
		return painted(out, func(to io.Writer) error { return status.WriteReport(to, options.Program, r, client.Now()) })
	})
	if err == nil && !r.Ready {
		err = errFailing
	}
	return err
}

// awaitReady requests the daemon's status until the daemon is ready or limit is over.
// Without a limit it asks once. A daemon that does not run yet may start.
func awaitReady(ctx context.Context, client *status.Client, limit time.Duration) (status.Report, error) {
	over := time.NewTimer(limit)
	defer over.Stop()
	again := time.NewTicker(waitInterval)
	defer again.Stop()
	for {
		r, err := client.Report(ctx)
		if limit == 0 || err == nil && r.Ready || err != nil && !errors.Is(err, status.ErrNoDaemon) {
			return r, err
		}
		select {
		case <-ctx.Done():
			return r, err
		case <-over.C:
			return r, err
		case <-again.C:
		}
	}
}

// painted writes a report, with colours on a terminal.
func painted(out io.Writer, write func(io.Writer) error) error {
	var text bytes.Buffer
	if err := write(&text); err != nil {
		return err
	}
	_, err := io.WriteString(out, terminalOf(out, os.Getenv).report(text.String()))
	return err
}

// peersAnswer are the other nodes as this host sees them.
type peersAnswer struct {
	Peers []status.Peer `json:"peers"`
}

// listPeers writes the other nodes as this host sees them, or those that match.
func listPeers(ctx context.Context, o options.Options, out io.Writer) error {
	client := status.Dial(o.StatusSocket, options.Name("status-socket"))
	all, err := client.Peers(ctx)
	if err != nil {
		return err
	}
	peers := make([]status.Peer, 0, len(all))
	for _, p := range all {
		if (o.Peers.Match == "" || p.Matches(o.Peers.Match)) && (p.Failing() || !o.Peers.Failing) {
			peers = append(peers, p)
		}
	}
	if len(peers) == 0 && o.Peers.Match != "" && !o.Peers.Failing {
		return fmt.Errorf("no peer matches %.60q; tulled peers lists all", o.Peers.Match)
	}
	return answer.Write(o.Output, out, "peers", peersAnswer{peers}, func() error { return writePeers(out, peers, client.Now(), o.Peers.Narrow) })
}

// writePeers writes peers for people: as a table, unless that is too wide for the
// terminal.
func writePeers(out io.Writer, peers []status.Peer, now time.Time, narrow bool) error {
	t := terminalOf(out, os.Getenv)
	if !narrow && t.width > 0 {
		var table strings.Builder
		if err := status.WritePeers(&table, peers, now, status.Layout{}); err != nil {
			return err
		}
		for line := range strings.Lines(table.String()) {
			narrow = narrow || len([]rune(line)) > t.width+1
		}
	}
	return status.WritePeers(out, peers, now, status.Layout{Narrow: narrow, Paint: t.paint})
}

// explain writes which node or network owns an address, and how the kernel reaches
// it.
func explain(ctx context.Context, o options.Options, out io.Writer) error {
	e, err := status.Dial(o.StatusSocket, options.Name("status-socket")).Explain(ctx, o.Address)
	if err != nil {
		return err
	}
	err = answer.Write(o.Output, out, "explanation", e, func() error {
		return painted(out, func(to io.Writer) error { return status.WriteExplanation(to, e) })
	})
	if err == nil && !e.OK() {
		err = errFailing
	}
	return err
}
