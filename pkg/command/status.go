package command

import (
	"context"
	"io"

	"github.com/tulle-net/tulle/pkg/options"
	"github.com/tulle-net/tulle/pkg/status"
)

// showStatus writes how this host's daemon is.
func showStatus(o options.Options, out io.Writer) error {
	client := status.Dial(o.StatusSocket)
	r, err := client.Report(context.Background())
	if err != nil {
		return err
	}
	err = answer(o.Output, out, "status", r, func() error { return status.WriteReport(out, r, client.Now()) })
	if err == nil && !r.Ready {
		err = errFailing
	}
	return err
}

// peersAnswer is the other nodes as this host sees them.
type peersAnswer struct {
	Peers []status.Peer `json:"peers"`
}

// listPeers writes the other nodes as this host sees them.
func listPeers(o options.Options, out io.Writer) error {
	client := status.Dial(o.StatusSocket)
	peers, err := client.Peers(context.Background())
	if err != nil {
		return err
	}
	return answer(o.Output, out, "peers", peersAnswer{peers}, func() error { return status.WritePeers(out, peers, client.Now()) })
}

// explain writes who owns an address, and how the kernel reaches it.
func explain(o options.Options, out io.Writer) error {
	e, err := status.Dial(o.StatusSocket).Explain(context.Background(), o.Address)
	if err != nil {
		return err
	}
	err = answer(o.Output, out, "explanation", e, func() error { return status.WriteExplanation(out, e) })
	if err == nil && !e.OK() {
		err = errFailing
	}
	return err
}
