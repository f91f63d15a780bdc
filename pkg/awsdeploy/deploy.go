package awsdeploy

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tulle-net/tulle/pkg/awsnet"
	"github.com/tulle-net/tulle/pkg/awsnet/apply"
	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/cloud/aws"
	"github.com/tulle-net/tulle/pkg/retry"
)

// Cloud is an account of AWS in one region. *aws.Client is one.
type Cloud interface {
	Network(context.Context, aws.NetworkScope) (awsnet.Account, error)
	NetworkZones(context.Context) ([]awsnet.Zone, error)
	NetworkUsage(context.Context, awsnet.View) (use map[string]awsnet.Usage, assumed []string, err error)
	NetworkChanger(awsnet.Owner) aws.NetworkChanger
}

// Options are the limits of a Deployer. The zero value has defaults.
type Options struct {
	// Most is how many calls that change something are in flight at once.
	Most int
	// Poll paces the reads of what AWS makes in the background, and Retry the passes after
	// failures that may end by themselves.
	Poll, Retry retry.Backoff
	// Start is how long reads may fail before the first change. Throttled ones may fail for
	// Patience.
	Start time.Duration
	// Patience is how long passes without any progress go on, and Linger how long a deletion
	// waits for what AWS removes late, such as the interfaces of deleted load balancers.
	Patience, Linger time.Duration
	// AnyQuota builds without a check of quotas.
	AnyQuota bool
	// Approve, if it is set, is called before the first change of a deletion. An error ends the run.
	Approve func(context.Context, awsnet.View) error
	// Report takes each Progress, and Called each call that ended. They must not block, and Called
	// is called from several goroutines.
	Report func(Progress)
	Called func(Called)
}

// Deployer builds and deletes networks in one account and region.
type Deployer struct {
	cloud Cloud
	o     Options
}

// New returns a Deployer.
func New(c Cloud, o Options) *Deployer {
	o.Most = cmp.Or(o.Most, 8)
	o.Poll = cmp.Or(o.Poll, retry.Backoff{First: 100 * time.Millisecond, Last: 15 * time.Second})
	o.Retry = cmp.Or(o.Retry, retry.Backoff{First: 2 * time.Second, Last: 30 * time.Second})
	o.Start = cmp.Or(o.Start, 30*time.Second)
	o.Patience = cmp.Or(o.Patience, 5*time.Minute)
	o.Linger = cmp.Or(o.Linger, 5*time.Minute)
	return &Deployer{c, o}
}

// Progress is how far a run is.
type Progress struct {
	// Pass is which pass this is, from 1, and Doing what it does now.
	Pass  int
	Doing Doing
	// Plan is how far the plan of this pass is, while it is carried out.
	Plan apply.Progress
	// Why is the reason to read again, if there is one.
	Why string
}

// Doing is what a pass does.
type Doing string

// What a pass does.
const (
	Reading  Doing = "reading"
	Applying Doing = "applying"
	Waiting  Doing = "waiting" // for the next pass
)

// SpecError is the refusal of a spec.
type SpecError []awsnet.Problem

func (e SpecError) Error() string {
	var lines []string
	for _, p := range e {
		lines = append(lines, p.String())
	}
	return "the spec cannot be built:\n  " + strings.Join(lines, "\n  ")
}

// Check refuses a spec that no account could build, without a call.
func Check(s awsnet.Spec) error {
	if problems := awsnet.Check(s, nil); len(problems) > 0 {
		return SpecError(problems)
	}
	return nil
}

// Read reads the account, and compares it with a spec. It also counts what quotas limit, for
// Headroom.
func (d *Deployer) Read(ctx context.Context, s awsnet.Spec) (awsnet.View, error) {
	return d.read(ctx, s, nil)
}

// read reads the account. after is the View before the changes of this run, or nil.
func (d *Deployer) read(ctx context.Context, s awsnet.Spec, after *awsnet.View) (awsnet.View, error) {
	if err := Check(s); err != nil {
		return awsnet.View{}, err
	}
	zones, err := d.cloud.NetworkZones(ctx)
	if err != nil {
		return awsnet.View{}, err
	}
	// The zones alone decide what is read: where subnets are does not depend on the account.
	draft, problems := awsnet.Complete(s, zones)
	if len(problems) > 0 && draft.Owner == (awsnet.Owner{}) {
		draft = awsnet.Network{Owner: awsnet.Owner{Cluster: s.Cluster, UID: s.UID}}
	}
	scope := aws.ScopeOf(draft)
	scope.Count = after == nil
	if after != nil && draft.Bastion == nil && !hasBastion(*after) {
		scope.Bastion = false
	}
	a, err := d.account(ctx, scope)
	if err != nil {
		return awsnet.View{}, err
	}
	v, problems := awsnet.See(s, zones, a)
	if len(problems) > 0 {
		return awsnet.View{}, SpecError(problems)
	}
	return v, nil
}

// hasBastion reports whether a reading of everything found a bastion.
func hasBastion(v awsnet.View) bool {
	return slices.ContainsFunc(v.Account.Found, func(f awsnet.Found) bool { return awsnet.KindOf(f.Object) == awsnet.KindBastion })
}

// account reads the account. A carrier gateway that a spec no longer needs shows in the routes.
func (d *Deployer) account(ctx context.Context, s aws.NetworkScope) (awsnet.Account, error) {
	a, err := d.cloud.Network(ctx, s)
	carrier := slices.ContainsFunc(a.Found, func(f awsnet.Found) bool {
		r, is := f.Object.(awsnet.Route)
		return is && strings.HasPrefix(r.Via.ID, "cagw-")
	})
	if err != nil || s.Carrier || !carrier {
		return a, err
	}
	s.Carrier = true
	return d.cloud.Network(ctx, s)
}

// End is what is to be deleted.
type End struct {
	Owner awsnet.Owner
	// VPC is the ID of the VPC of the spec if it is not the cluster's own, or "".
	VPC string
	// Sweep includes what the cluster's cloud controllers left.
	Sweep bool
}

// EndOf returns the deletion of the network of a spec.
func EndOf(s awsnet.Spec, sweep bool) End {
	v := s.Network.VPC
	e := End{Owner: awsnet.Owner{Cluster: s.Cluster, UID: s.UID}, Sweep: sweep}
	if v.ID != "" && v.Tags[e.Owner.Tag()] != "owned" {
		e.VPC = v.ID
	} else {
		e.Owner.Adopt = v.ID
	}
	return e
}

// ReadEnd reads the account, and returns what a deletion would do.
func (d *Deployer) ReadEnd(ctx context.Context, e End) (awsnet.View, error) {
	a, err := d.account(ctx, aws.ScopeOfEnd(e.Owner, e.VPC))
	if err != nil {
		return awsnet.View{}, err
	}
	return awsnet.SeeEnd(e.Owner, a, e.Sweep), nil
}

// Headroom is what a plan needs of the account's quotas.
type Headroom struct {
	Needs []awsnet.Need
	// Assumed says which limits could not be read, and why.
	Assumed []string
}

// Headroom reads what the region has of the quotas that a plan needs.
func (d *Deployer) Headroom(ctx context.Context, v awsnet.View) (Headroom, error) {
	use, assumed, err := d.cloud.NetworkUsage(ctx, v)
	if err != nil {
		return Headroom{}, err
	}
	h := Headroom{Assumed: assumed}
	for _, n := range awsnet.Needs(v.Plan, v.Want, use) {
		if _, counted := use[n.Code]; counted || n.Of == awsnet.KindVPC || n.Of == awsnet.KindSecurityGroup {
			h.Needs = append(h.Needs, n)
		}
	}
	return h, nil
}

// Short returns what does not suffice.
func (h Headroom) Short() (all []awsnet.Need) {
	for _, n := range h.Needs {
		if n.Short() {
			all = append(all, n)
		}
	}
	return all
}

// QuotaError says which quotas do not suffice. Nothing was changed.
type QuotaError struct{ Headroom }

func (e QuotaError) Error() string {
	text := "the account's quotas do not suffice, so nothing was changed:"
	for _, n := range e.Short() {
		text += "\n  " + n.String()
	}
	for _, a := range e.Assumed {
		text += "\n  " + a
	}
	return text
}

// patience returns how long reads may fail. Before the first change a run that ends loses nothing,
// and the cause is probably a wrong setting or a missing route to AWS.
func (d *Deployer) patience(begun bool, err error) time.Duration {
	if begun || cloud.KindOf(err) == cloud.Throttled {
		return d.o.Patience
	}
	return min(d.o.Start, d.o.Patience)
}

// passes reports whether an error may end by itself.
func passes(err error) bool {
	switch cloud.KindOf(err) {
	case cloud.Denied, cloud.Refused, cloud.Full:
		return false
	}
	return !apply.IsWaitError(err)
}

func plural(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}
