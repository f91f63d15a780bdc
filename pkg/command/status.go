package command

import (
	"context"
	"encoding/json"
	"io"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/tulle-net/tulle/pkg/options"
	"github.com/tulle-net/tulle/pkg/status"
)

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
		err = answer(o.Output, out, e, func() error { return status.WriteExplanation(out, e) })
		if err == nil && !e.OK() {
			err = errFailing
		}
		return err
	}
	r, err := client.Report(ctx)
	if err == nil {
		err = answer(o.Output, out, r, func() error { return status.WriteReport(out, r, time.Now()) })
	}
	if err == nil && !r.Ready {
		err = errFailing
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
