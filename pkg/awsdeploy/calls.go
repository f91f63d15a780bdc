package awsdeploy

import (
	"context"
	"time"

	"github.com/tulle-net/tulle/pkg/awsnet"
	"github.com/tulle-net/tulle/pkg/awsnet/apply"
)

// Called is a call that ended.
type Called struct {
	Call awsnet.Call
	// Steps are the steps that it belongs to, and IDs the objects that it made or changed.
	Steps []awsnet.StepID
	IDs   []string
	Err   error
	Took  time.Duration
}

// caller reports the calls of a client.
type caller struct {
	apply.Client
	called func(Called)
}

func (c caller) Change(ctx context.Context, call awsnet.Call, all []apply.Change) ([]apply.Made, error) {
	began := time.Now()
	made, err := c.Client.Change(ctx, call, all)
	if c.called != nil {
		is := Called{Call: call, Err: err, Took: time.Since(began)}
		for i, x := range all {
			id := x.ID
			if i < len(made) && made[i].ID != "" {
				id = made[i].ID
			}
			is.Steps, is.IDs = append(is.Steps, x.Step.StepID), append(is.IDs, id)
		}
		c.called(is)
	}
	return made, err
}
