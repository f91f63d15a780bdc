package command

import (
	"context"
	"io"
	"time"

	"github.com/tulle-net/tulle/pkg/options"
	"github.com/tulle-net/tulle/pkg/status"
)

// showStatus writes how this host's daemon is.
func showStatus(o options.Options, out io.Writer) error {
	r, err := status.Dial(o.StatusSocket).Report(context.Background())
	if err != nil {
		return err
	}
	err = answer(o.Output, out, "status", r, func() error { return status.WriteReport(out, r, time.Now()) })
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
	peers, err := status.Dial(o.StatusSocket).Peers(context.Background())
	if err != nil {
		return err
	}
	return answer(o.Output, out, "peers", peersAnswer{peers}, func() error { return status.WritePeers(out, peers, time.Now()) })
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
