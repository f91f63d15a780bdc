package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
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

// listLeases writes all leases in the store, and why each rejected one is rejected.
func listLeases(o options.Options, out io.Writer) error {
	ctx, cancel := context.WithTimeout(context.Background(), storeLimit)
	defer cancel()
	store, err := daemon.OpenStore(o)
	if err != nil {
		return err
	}
	defer store.Close()
	cfg, err := store.Config(ctx, subnet.Config{})
	if err != nil {
		return fmt.Errorf("read the network's config: %w", err)
	}
	list, err := firstList(ctx, store)
	if err != nil {
		return fmt.Errorf("read the leases: %w", err)
	}
	return writeLeases(out, cfg, list)
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

func writeLeases(out io.Writer, cfg subnet.Config, list subnet.Update) error {
	// No own lease: every node judges the leases the same way.
	table := subnet.NewTable(cfg, subnet.Lease{Attrs: subnet.Attrs{BackendType: cfg.Backend.Type}})
	table.Apply(list)
	leases, rejected := list.Leases, table.Rejected()
	wrong := make(map[string]string, len(rejected))
	for _, r := range rejected {
		wrong[r.Key] = r.Err.Error()
	}
	slices.SortFunc(leases, func(a, b subnet.Lease) int {
		return cmp.Or(a.Subnets[subnet.IPv4].Compare(b.Subnets[subnet.IPv4]), a.Subnets[subnet.IPv6].Compare(b.Subnets[subnet.IPv6]))
	})
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "SUBNET\tNODE\tADDRESS\tBACKEND\tMTU\tNOTE")
	for _, l := range leases {
		note := wrong[l.Key()]
		delete(wrong, l.Key())
		if note != "" {
			note = "rejected: " + note
		} else if l.IsReservation() {
			note = "reservation"
		}
		var subnets, addresses []string
		for f := range l.Subnets {
			if l.Subnets[f].IsValid() {
				subnets = append(subnets, l.Subnets[f].String())
			}
			if l.PublicIP[f].IsValid() {
				addresses = append(addresses, l.PublicIP[f].String())
			}
		}
		mtu := "-"
		if l.Node.MTU != 0 {
			mtu = fmt.Sprint(l.Node.MTU)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", strings.Join(subnets, " "), cmp.Or(l.Node.Name, l.Node.ID, "-"),
			cmp.Or(strings.Join(addresses, " "), "-"), cmp.Or(l.BackendType, "-"), mtu, note)
	}
	for _, r := range rejected {
		if why, unread := wrong[r.Key]; unread {
			fmt.Fprintf(w, "%.60q\t-\t-\t-\t-\trejected: %s\n", r.Key, why)
		}
	}
	return w.Flush()
}
