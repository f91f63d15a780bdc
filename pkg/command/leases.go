package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/tulle-net/tulle/pkg/daemon"
	"github.com/tulle-net/tulle/pkg/options"
	"github.com/tulle-net/tulle/subnet"
)

// storeLimit is how long a person waits for a store that does not answer.
const storeLimit = 10 * time.Second

// leasesAnswer is all leases in the store.
type leasesAnswer struct {
	Leases []leaseAnswer `json:"leases"`
}

// leaseAnswer is one lease in the store.
type leaseAnswer struct {
	Key   string     `json:"key"`
	State leaseState `json:"state"`
	// Code and Why are why it is rejected; Code is one of subnet.RejectionCodes.
	Code      string         `json:"code,omitempty"`
	Why       string         `json:"why,omitempty"`
	Subnets   []netip.Prefix `json:"subnets,omitempty"`
	Name      string         `json:"nodeName,omitempty"`
	NodeID    string         `json:"nodeID,omitempty"`
	Addresses []netip.Addr   `json:"addresses,omitempty"`
	Backend   string         `json:"backend,omitempty"`
	MTU       int            `json:"mtu,omitempty"`
	Expires   *time.Time     `json:"expires,omitempty"` // nil is never
}

// leaseState is what nodes make of a lease.
type leaseState string

// The states of leases.
const (
	leaseAccepted leaseState = "accepted"
	leaseReserved leaseState = "reservation" // accepted, and never expires
	leaseRejected leaseState = "rejected"
)

func leaseStates() []leaseState { return []leaseState{leaseAccepted, leaseReserved, leaseRejected} }

// listLeases writes all leases in the store, and why each rejected one is rejected.
func listLeases(o options.Options, out io.Writer) error {
	a, err := readLeases(o)
	if err != nil {
		return err
	}
	return answer(o.Output, out, "leases", a, func() error { return writeLeases(out, a) })
}

// readLeases reads all leases from the store.
func readLeases(o options.Options) (leasesAnswer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), storeLimit)
	defer cancel()
	store, err := daemon.OpenStore(o)
	if err != nil {
		return leasesAnswer{}, err
	}
	defer store.Close()
	cfg, err := store.Config(ctx, subnet.Config{})
	if err != nil {
		return leasesAnswer{}, fmt.Errorf("read the network's config: %w", err)
	}
	list, err := firstList(ctx, store)
	if err != nil {
		return leasesAnswer{}, fmt.Errorf("read the leases: %w", err)
	}
	return judgeLeases(cfg, list), nil
}

// firstList returns the first complete list of leases.
func firstList(ctx context.Context, store subnet.Store) (list subnet.Update, err error) {
	watching, enough := context.WithCancel(ctx)
	defer enough()
	err = store.Watch(watching, func(u subnet.Update) {
		if u.Complete {
			list = u
			enough()
		}
	})
	if list.Complete && errors.Is(err, context.Canceled) {
		err = nil
	}
	return list, err
}

// judgeLeases returns what every node makes of a list of leases, in the order of
// their subnets; those with an unreadable key or value come last.
func judgeLeases(cfg subnet.Config, list subnet.Update) leasesAnswer {
	// No own lease: every node judges the leases the same way.
	table := subnet.NewTable(cfg, subnet.Lease{Attrs: subnet.Attrs{BackendType: cfg.Backend.Type}})
	table.Apply(list)
	rejected := table.Rejected()
	wrong := make(map[string]*subnet.LeaseError, len(rejected))
	for _, r := range rejected {
		wrong[r.Key] = r
	}
	leases := slices.Clone(list.Leases)
	slices.SortFunc(leases, func(a, b subnet.Lease) int {
		return cmp.Or(a.Subnets[subnet.IPv4].Compare(b.Subnets[subnet.IPv4]), a.Subnets[subnet.IPv6].Compare(b.Subnets[subnet.IPv6]))
	})
	all := make([]leaseAnswer, 0, len(leases)+len(rejected))
	for _, l := range leases {
		a := leaseAnswer{
			Key: l.Key(), State: leaseAccepted, Name: l.Node.Name, NodeID: l.Node.ID, Backend: l.BackendType, MTU: l.Node.MTU,
			Subnets: valid(l.Subnets), Addresses: valid(l.PublicIP),
		}
		if l.IsReservation() {
			a.State = leaseReserved
		} else {
			a.Expires = &l.Expires
		}
		if r := wrong[a.Key]; r != nil {
			a.State, a.Code, a.Why = leaseRejected, r.Code(), r.Err.Error()
			delete(wrong, a.Key)
		}
		all = append(all, a)
	}
	for _, r := range rejected {
		if wrong[r.Key] != nil {
			all = append(all, leaseAnswer{Key: r.Key, State: leaseRejected, Code: r.Code(), Why: r.Err.Error()})
		}
	}
	return leasesAnswer{all}
}

// valid returns those of a pair that exist.
func valid[T interface{ IsValid() bool }](p subnet.Pair[T]) (all []T) {
	for _, v := range p {
		if v.IsValid() {
			all = append(all, v)
		}
	}
	return all
}

// writeLeases writes leases for people.
func writeLeases(out io.Writer, a leasesAnswer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "SUBNET\tNODE\tADDRESS\tBACKEND\tMTU\tNOTE")
	for _, l := range a.Leases {
		subnets, note, mtu := join(l.Subnets), "", "-"
		if subnets == "" {
			subnets = fmt.Sprintf("%.60q", l.Key)
		}
		switch l.State {
		case leaseRejected:
			note = "rejected: " + l.Why
		case leaseReserved:
			note = "reservation"
		}
		if l.MTU != 0 {
			mtu = fmt.Sprint(l.MTU)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", subnets, cmp.Or(l.Name, l.NodeID, "-"), cmp.Or(join(l.Addresses), "-"), cmp.Or(l.Backend, "-"), mtu, note)
	}
	return w.Flush()
}

func join[T fmt.Stringer](all []T) string {
	var words []string
	for _, v := range all {
		words = append(words, v.String())
	}
	return strings.Join(words, " ")
}
