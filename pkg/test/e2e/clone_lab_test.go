package e2e

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tulle-net/tulle/pkg/test/clustertest"
	"github.com/tulle-net/tulle/subnet"
)

// imageID is the machine-id of all hosts that were copied from one image.
const imageID = "0123456789abcdef0123456789abcdef"

// startClone runs tulled on a host that was copied from the image.
func (w *world) startClone(h *clustertest.Host, flags ...string) *clustertest.Daemon {
	w.t.Helper()
	h.SetMachineID(imageID)
	return w.startKnown(h, flags...)
}

// startKnown runs tulled on a host that its machine-id identifies.
func (w *world) startKnown(h *clustertest.Host, more ...string) *clustertest.Daemon {
	w.t.Helper()
	flags := slices.DeleteFunc(w.flags(h, more...), func(flag string) bool { return strings.HasPrefix(flag, "--node-id=") })
	d := h.Start(tulled, flags...)
	w.daemons[h] = d
	return d
}

// copyState copies a host's state folder to another. With hardware, it also copies
// the identity of the hardware, as some hypervisors do.
func copyState(t *testing.T, from, to *clustertest.Host, hardware bool) {
	t.Helper()
	if err := os.CopyFS(to.StateDir, os.DirFS(from.StateDir)); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(to.StateDir, "identity")
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if !hardware {
		return
	}
	// A host of the lab cannot have another's MAC, so its own goes into the file.
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var identity map[string]any
	if err := json.Unmarshal(text, &identity); err != nil {
		t.Fatal(err)
	}
	_, mac, _ := strings.Cut(to.NS.IP(t, "-o link show dev "+clustertest.Uplink), "link/ether ")
	identity["hardware"].(map[string]any)["macs"] = []string{strings.Fields(mac)[0]}
	if text, err = json.Marshal(identity); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// wantHistory checks all of etcd's history. No host may have taken a lease from its
// public IP. A lease may only have been deleted in favour of an older one that it
// overlaps.
func (w *world) wantHistory() {
	w.t.Helper()
	var to int64
	w.ask(func(ctx context.Context) error {
		r, err := w.client.Get(ctx, configKey)
		if err == nil {
			to = r.Header.Revision
		}
		return err
	})
	w.put(configKey+"-end", "") // This write follows all other events.
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	held := make(map[string]subnet.Lease)
	for r := range w.client.Watch(ctx, prefix, clientv3.WithPrefix(), clientv3.WithRev(1)) {
		if err := r.Err(); err != nil {
			w.t.Fatal(err)
		}
		for _, e := range r.Events {
			if e.Kv.ModRevision > to {
				return
			}
			key, isLease := strings.CutPrefix(string(e.Kv.Key), leasesKey)
			before, had := held[key]
			if !isLease {
				continue
			}
			if e.Type == clientv3.EventTypeDelete {
				delete(held, key)
				if !slices.ContainsFunc(slices.Collect(maps.Values(held)), func(l subnet.Lease) bool { return older(l, before) }) {
					w.t.Errorf("revision %d: the lease %s of %s was deleted", e.Kv.ModRevision, key, before.Holder())
				}
				continue
			}
			l, err := subnet.ParseLease(key, e.Kv.Value)
			if err != nil {
				w.t.Fatal(err)
			}
			l.Created = e.Kv.CreateRevision
			if had && l.PublicIP != before.PublicIP {
				w.t.Errorf("revision %d: %s took the lease %s from %s", e.Kv.ModRevision, l.Holder(), key, before.Holder())
			}
			held[key] = l
		}
	}
	w.t.Fatal("etcd did not return its history")
}

// older reports whether a is older than b and overlaps it.
func older(a, b subnet.Lease) bool {
	for f := range a.Subnets {
		if a.Created < b.Created && a.Subnets[f].Overlaps(b.Subnets[f]) {
			return true
		}
	}
	return false
}

// wantClones checks that each host has a lease, an ID and a MAC of its own, and that n
// of them do not use the shared ID.
func (w *world) wantClones(clones int, hosts ...*clustertest.Host) {
	w.t.Helper()
	ids, data, keys := make(map[string]string), make(map[string]string), make(map[string]string)
	leases := w.leases()
	forked := 0
	for _, h := range hosts {
		key := w.key(h)
		l, err := subnet.ParseLease(key, []byte(leases[key]))
		if err != nil {
			w.t.Fatalf("%s: %v", h.Name, err)
		}
		if l.PublicIP[subnet.IPv4] != h.Addr[subnet.IPv4] {
			w.t.Errorf("%s has %s in its env file, which is leased to %s", h.Name, key, l.Holder())
		}
		for what, value := range map[*map[string]string]string{&ids: l.Node.ID, &data: l.BackendData[subnet.IPv4], &keys: key} {
			if other := (*what)[value]; other != "" && value != "" {
				w.t.Errorf("%s and %s both have %s", h.Name, other, value)
			}
			(*what)[value] = h.Name
		}
		if subnet.SharedID(l.Node.ID) != l.Node.ID {
			forked++
		}
	}
	if forked != clones {
		w.t.Errorf("%d of %d hosts have an ID of their own, want %d: %v", forked, len(hosts), clones, ids)
	}
	if len(leases) != len(w.Hosts) {
		w.t.Errorf("%d hosts have %d leases: %v", len(w.Hosts), len(leases), leases)
	}
	distinct(w.t, leases)
}

// sharedID is the warning of clones.
const sharedID = "Another machine has this machine's ID"

// flood sends pings from each of hosts to each other, in both directions.
func (w *world) flood(hosts ...*clustertest.Host) *streams {
	s := &streams{w: w}
	for _, from := range hosts {
		for _, to := range hosts {
			if from != to {
				s.each = append(s.each, w.Flood(from.Pods[0], to.Pods[0], subnet.IPv4))
			}
		}
	}
	return s
}
