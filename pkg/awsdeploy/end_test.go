package awsdeploy_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/awsdeploy"
	"github.com/tulle-net/tulle/pkg/awsnet"
	"github.com/tulle-net/tulle/pkg/cloud/aws"
	"github.com/tulle-net/tulle/pkg/cloud/aws/awstest"
)

// TestUnreachableAPIEndsTheRunSoon: before the first change, a run gives up after Start, and says
// that nothing was changed.
func TestUnreachableAPIEndsTheRunSoon(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.fake.Inject(awstest.Fault{Reset: true})
	o := l.fast()
	o.Start, o.Patience = time.Millisecond, time.Hour
	for name, run := range map[string]func(*awsdeploy.Deployer) error{
		"build": func(d *awsdeploy.Deployer) error {
			_, err := d.Build(t.Context(), l.spec(oneZone))
			return err
		},
		"destroy": func(d *awsdeploy.Deployer) error {
			_, err := d.Destroy(t.Context(), awsdeploy.EndOf(l.spec(oneZone), false))
			return err
		},
	} {
		if err := run(awsdeploy.New(l.client(), o)); err == nil || !strings.HasSuffix(err.Error(), "; nothing was changed") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestUnreachableAPIIsTriedAgainAfterAChange: the reading after the first change may fail for
// longer than Start.
func TestUnreachableAPIIsTriedAgainAfterAChange(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	o := l.fast()
	o.Start = time.Millisecond
	begun := false // the server calls When one at a time
	l.fake.Inject(awstest.Fault{Reset: true, Times: 6, When: func(c awstest.Call) bool {
		begun = begun || isChange(c.Action)
		return begun && c.Action == "DescribeVpcs"
	}})
	if _, err := awsdeploy.New(l.client(), o).Build(t.Context(), l.spec(oneZone)); err != nil {
		t.Error(err)
	}
}

// rival undoes a part of the network before each reading.
type rival struct {
	awsdeploy.Cloud
	undo  func(reading int)
	reads int
}

func (r *rival) Network(ctx context.Context, s aws.NetworkScope) (awsnet.Account, error) {
	r.reads++
	r.undo(r.reads)
	return r.Cloud.Network(ctx, s)
}

// TestRivalEndsTheRun: another program deletes a different route each time. The run ends, and
// names what came back.
func TestRivalEndsTheRun(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	var tables []string
	for k, f := range l.build(oneZone).View.Holding.Ours {
		if k.Kind == awsnet.KindRouteTable {
			tables = append(tables, f.ID)
		}
	}
	if len(tables) < 2 {
		t.Fatalf("%d route tables", len(tables))
	}
	c := &rival{Cloud: l.client(), undo: func(reading int) {
		l.do("DeleteRoute", "", "RouteTableId", tables[reading%len(tables)], "DestinationCidrBlock", "0.0.0.0/0")
	}}
	r, err := awsdeploy.New(c, l.fast()).Build(t.Context(), l.spec(oneZone))
	if _, is := errors.AsType[*awsdeploy.RunError](err); !is || r.Left != 1 || !strings.Contains(err.Error(), "rounds of changes did not suffice: \"create route/") {
		t.Errorf("%d passes, %d left: %v", r.Passes, r.Left, err)
	}
}

// TestNothingIsDeletedWithoutApproval: what is approved is what the run then deletes.
func TestNothingIsDeletedWithoutApproval(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.build(oneZone)
	before, shown, no := l.changes(), 0, errors.New("no")
	o := l.fast()
	o.Approve = func(_ context.Context, v awsnet.View) error {
		shown = len(v.Plan.Steps)
		return no
	}
	r, err := awsdeploy.New(l.client(), o).Destroy(t.Context(), awsdeploy.EndOf(l.spec(oneZone), false))
	if !errors.Is(err, no) || shown == 0 || r.Done > 0 || l.changes() != before {
		t.Errorf("%d steps shown, %d changes: %v", shown, l.changes()-before, err)
	}
	l.destroy(oneZone)
}
