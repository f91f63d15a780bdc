package network

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"sort"

	"github.com/tulle-net/tulle/backend"
	"github.com/tulle-net/tulle/pkg/status"
	"github.com/tulle-net/tulle/subnet"
)

// Leases reports the config in force and all leases that this node knows.
func (a *Agent) Leases(ctx context.Context) (status.Leases, error) {
	v := a.view(ctx, withPeers)
	return v.Leases(), v.Stuck
}

// Leases reports the config in force and all leases.
func (v View) Leases() status.Leases {
	var leases []subnet.Lease
	if v.Own != (subnet.Lease{}) {
		leases = append(leases, v.Own)
	}
	for _, p := range v.Peers.All {
		leases = append(leases, *p.Lease)
	}
	all := status.Leases{Leases: LeaseEntries(leases, v.Peers.Rejected)}
	if !v.Backends.IsZero() {
		all.Config = PlainConfig(v.Config, v.Backends.Target())
	}
	return all
}

// PlainConfig returns a config with its defaults. It contains only keys that the
// backend knows; an unknown one may be a secret.
func PlainConfig(cfg subnet.Config, b backend.Backend) json.RawMessage {
	settings, err := json.Marshal(b.Settings())
	if err != nil {
		settings = []byte("{}") // plain fields do not fail
	}
	kind, _ := json.Marshal(cfg.Backend.Type)
	raw := append([]byte(`{"Type":`), kind...)
	if len(settings) > len("{}") {
		raw = append(append(raw, ','), settings[1:]...)
	} else {
		raw = append(raw, '}')
	}
	cfg.Backend.Raw = string(raw)
	return subnet.FormatConfig(cfg)
}

// LeaseEntries returns leases in the order of their subnets. Rejected ones that
// leases lacks come last, with their keys only.
func LeaseEntries(leases []subnet.Lease, rejected []*subnet.LeaseError) []status.LeaseEntry {
	wrong := make(map[string]*subnet.LeaseError, len(rejected))
	for _, r := range rejected {
		wrong[r.Key] = r
	}
	leases = slices.Clone(leases)
	sort.Slice(leases, func(i, j int) bool {
		a, b := &leases[i].Subnets, &leases[j].Subnets
		return cmp.Or(a[subnet.IPv4].Compare(b[subnet.IPv4]), a[subnet.IPv6].Compare(b[subnet.IPv6])) < 0
	})
	all := make([]status.LeaseEntry, 0, len(leases)+len(rejected))
	for _, l := range leases {
		e := status.LeaseEntry{
			Key: l.Key(), State: status.LeaseAccepted, Name: l.Node.Name, NodeID: l.Node.ID, Backend: l.BackendType, MTU: l.Node.MTU,
			Subnets: valid(l.Subnets), Addresses: valid(l.PublicIP),
		}
		if l.IsReservation() {
			e.State = status.LeaseReserved
		} else {
			e.Expires = &l.Expires
		}
		if r := wrong[e.Key]; r != nil {
			e.State, e.Code, e.Why = status.LeaseRejected, r.Code(), r.Err.Error()
			delete(wrong, e.Key)
		}
		all = append(all, e)
	}
	for _, r := range rejected {
		if wrong[r.Key] != nil {
			all = append(all, status.LeaseEntry{Key: r.Key, State: status.LeaseRejected, Code: r.Code(), Why: r.Err.Error()})
		}
	}
	return all
}
