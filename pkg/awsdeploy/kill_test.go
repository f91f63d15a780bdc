package awsdeploy_test

import (
	"context"
	"flag"
	"math/rand/v2"
	"testing"

	"github.com/tulle-net/tulle/pkg/awsdeploy"
)

var everyCall = flag.Bool("every-call", false, "TestKilledAtAnyCall kills at every call, and not only at some")

// stride is how many calls TestKilledAtAnyCall passes over, from a random one: each of them costs
// two whole networks.
const stride = 16

// TestKilledAtAnyCall ends runs at calls of creation and of deletion. The next run, with a client
// that knows nothing of the first one, ends in the same state, with nothing twice and nothing left.
func TestKilledAtAnyCall(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	first, step := 1+rand.IntN(stride), stride
	if *everyCall {
		first, step = 1, 1
	}
	t.Logf("from call %d, each %d", first, step)
	kills := 0
	for at := first; l.cut(at, func(ctx context.Context, d *awsdeploy.Deployer) error {
		_, err := d.Build(ctx, l.spec(oneZone))
		return err
	}); at += step {
		l.build(oneZone)
		l.destroy(oneZone)
		kills++
	}
	for at := first; ; at += step {
		l.build(oneZone)
		cut := l.cut(at, func(ctx context.Context, d *awsdeploy.Deployer) error {
			_, err := d.Destroy(ctx, awsdeploy.EndOf(l.spec(oneZone), false))
			return err
		})
		l.destroy(oneZone)
		if !cut {
			break
		}
		kills++
	}
	t.Logf("killed %d times", kills)
	if kills == 0 {
		t.Error("no run was killed")
	}
}
