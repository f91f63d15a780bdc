package command

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/tulle-net/tulle/pkg/answer"
	"github.com/tulle-net/tulle/pkg/options"
	"github.com/tulle-net/tulle/pkg/status"
	"github.com/tulle-net/tulle/pkg/wgkey"
)

// rotationAnswer is the result of a request to replace this host's key.
type rotationAnswer struct {
	Requested bool   `json:"requested"` // false: it was requested before, or is under way
	Step      string `json:"step"`      // of the replacement; none before it begins
	Running   bool   `json:"running"`   // the daemon is
}

// rotateKey requests that this host's daemon replaces its WireGuard key.
func rotateKey(ctx context.Context, o options.Options, out io.Writer) error {
	if o.StateDir == "" {
		return errors.New("the WireGuard key is in the state folder: set " + options.Name("state-dir") + " as for the daemon")
	}
	step, requested, err := wgkey.Request(o.StateDir)
	if err != nil {
		return err
	}
	_, failed := status.Dial(o.StatusSocket, options.Name("status-socket")).Report(ctx)
	a := rotationAnswer{Requested: requested, Step: step.String(), Running: failed == nil}
	return answer.Write(o.Output, out, "rotation", a, func() error {
		text := "requested; tulled status shows the replacement of the key"
		switch {
		case step != wgkey.None:
			text = "already under way, in the step " + a.Step + "; tulled status shows it"
		case !requested:
			text = "already requested; tulled status shows the replacement of the key"
		}
		if !a.Running {
			text += ". tulled does not answer: the replacement goes on when it runs"
		}
		_, err := fmt.Fprintln(out, text)
		return err
	})
}
