package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/tulle-net/tulle/backend"
	"github.com/tulle-net/tulle/network"
	"github.com/tulle-net/tulle/pkg/answer"
	"github.com/tulle-net/tulle/pkg/daemon"
	"github.com/tulle-net/tulle/pkg/options"
	"github.com/tulle-net/tulle/pkg/status"
	"github.com/tulle-net/tulle/pkg/trouble"
	"github.com/tulle-net/tulle/subnet"
)

// storeLimit is how long a command waits for a store that does not answer.
var storeLimit = 10 * time.Second

// listLeases writes all leases in the store, and why each rejected one is rejected.
func listLeases(o options.Options, backends map[string]backend.Factory, out io.Writer) error {
	a, err := readLeases(o, backends)
	if err != nil {
		return err
	}
	return answer.Write(o.Output, out, "leases", a, func() error { return writeLeases(out, a.Leases) })
}

// readLeases reads the config and all leases from the store.
func readLeases(o options.Options, backends map[string]backend.Factory) (all status.Leases, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), storeLimit)
	defer cancel()
	store, err := daemon.OpenStore(o)
	if err != nil {
		return all, err
	}
	defer store.Close()
	cfg, err := store.Config(ctx, subnet.Config{})
	if err != nil {
		return all, fmt.Errorf("read the network's config: %w", reasonOf(err, store.Status()))
	}
	list, err := firstList(ctx, store)
	if err != nil {
		return all, fmt.Errorf("read the leases: %w", reasonOf(err, store.Status()))
	}
	if b, err := makeBackend(cfg, backends); err == nil {
		all.Config = network.PlainConfig(cfg, b)
	}
	all.Leases = judgeLeases(cfg, list)
	return all, nil
}

// reasonOf returns the reason of a store's error, for people. When the time is over, it is
// what failed meanwhile, or what the store waited for.
func reasonOf(err error, s trouble.Status) error {
	var waited *subnet.WaitError
	switch {
	case !errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.As(err, &waited) && len(s.Failing) == 0:
		return waited.Why
	case s.Last.Why != "":
		return errors.New(s.Last.Why)
	}
	return fmt.Errorf("no answer within %s", storeLimit)
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

// judgeLeases returns how every node judges a list of leases.
func judgeLeases(cfg subnet.Config, list subnet.Update) []status.LeaseEntry {
	// There is no own lease: every node judges the leases in the same way.
	table := subnet.NewTable(cfg, subnet.Lease{Attrs: subnet.Attrs{BackendType: cfg.Backend.Type}})
	table.KnowAll()
	table.Apply(list)
	return network.LeaseEntries(list.Leases, table.Rejected())
}

// writeLeases writes leases for people.
func writeLeases(out io.Writer, leases []status.LeaseEntry) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "SUBNET\tNODE\tADDRESS\tBACKEND\tMTU\tNOTE")
	for _, l := range leases {
		subnets, note, mtu := join(l.Subnets), "", "-"
		if subnets == "" {
			subnets = fmt.Sprintf("%.60q", l.Key)
		}
		switch l.State {
		case status.LeaseRejected:
			note = "rejected: " + l.Why
		case status.LeaseReserved:
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
