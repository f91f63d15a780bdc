package azure

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/cloud/azure/azuretest"
	"github.com/tulle-net/tulle/pkg/retry"
)

const (
	// fast is how often the clients of tests poll.
	fast = time.Millisecond
	// patience is how long a test may take.
	patience = time.Minute
)

// quick paces the retries of the clients of tests.
var quick = retry.Backoff{First: fast, Last: fast}

// lab is a client of a subscription in this process.
type lab struct {
	*Client
	*azuretest.Server
	t   *testing.T
	ctx context.Context
}

// newLab returns a client that polls operations quickly.
func newLab(t *testing.T, more ...string) lab {
	t.Helper()
	s := azuretest.New(t)
	s.Setenv(t)
	config, _, err := ReadConfig(s.Config(more...))
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(Options{Config: config, Agent: "a name that is longer than Azure allows"})
	if err != nil {
		t.Fatal(err)
	}
	c.poll, c.pace = fast, quick
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return lab{c, s, t, ctx}
}

// add returns the change that adds a node's route.
func (l lab) add(i int) cloud.RouteChange {
	return cloud.RouteChange{Table: l.tableKey(), Verb: cloud.Add, Destination: netip.MustParsePrefix(fmt.Sprintf("10.%d.%d.0/24", 64+i/256, i%256)), Interface: fmt.Sprintf("10.0.%d.%d", i/200, i%200+4), For: fmt.Sprint("node-", i)}
}

// change makes one change.
func (l lab) change(c cloud.RouteChange) error {
	l.t.Helper()
	return l.ChangeRoutes(l.ctx, []cloud.RouteChange{c})[0]
}

// must fails the test for an error.
func (l lab) must(errs ...error) {
	l.t.Helper()
	for _, err := range errs {
		if err != nil {
			l.t.Fatal(err)
		}
	}
}
