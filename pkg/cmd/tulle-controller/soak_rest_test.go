package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
)

const (
	// restless is how long it may take until all is at rest.
	restless = 4 * time.Minute
	// forgotten is how long it may take until the ledger has forgotten earlier targets:
	// a write of the cloud may arrive ten minutes late.
	forgotten = 12 * time.Minute
)

// calm ends all that is wrong, and does what events ask of a person.
func (w *soakWorld) calm() {
	w.usual()
	var stopped []*machine
	w.Do(func() {
		for _, m := range w.machines {
			if m.cut = false; m.stopped {
				stopped = append(stopped, m)
			}
		}
	})
	for _, m := range stopped {
		w.start(m)
	}
	for i, p := range w.replicas {
		if p.Over() {
			w.t.Errorf("replica %d has ended: %s", i, p.Said())
		}
	}
}

// await waits until all is at rest: Nodes, tables and plan agree. In the end, nothing is
// left to write in the ledger, either.
func (w *soakWorld) await(end bool) {
	w.t.Helper()
	patience := restless
	if end {
		patience = forgotten
	}
	kerneltest.Eventually(w.t, patience, func() error {
		w.Do(func() {
			for name, n := range w.Nodes {
				m := w.machines[name]
				if m == nil || w.isMarked(m) || n.Spec.ProviderID != "" && instanceOf(n) != m.at.ID || !w.lives(m) && !isReady(n) {
					w.remove(name) // as the events ask for, and what waits for the limit
				}
			}
		})
		if w.t.Failed() {
			return nil
		}
		if err := w.nodesAtRest(); err != nil {
			return err
		}
		if err := w.tablesAtRest(); err != nil {
			return err
		}
		return w.planned(end)
	})
}

// planned returns what a plan would write, or nil if that is nothing.
func (w *soakWorld) planned(end bool) error {
	var out strings.Builder
	var plan planAnswer
	err := run(append([]string{"plan", "--output=json"}, w.flags(w.args...)...), nil, &out)
	if code := exit(err, &out); code == exitFine {
		return nil
	}
	if err := json.Unmarshal([]byte(out.String()), &plan); err != nil {
		return fmt.Errorf("%w: %s", err, out.String())
	}
	for _, write := range plan.Writes {
		if end || write.Kind != "ConfigMap" {
			return fmt.Errorf("the plan has %+v", write)
		}
	}
	return nil
}

// nodesAtRest returns why a Node is not valid, initialised and routed, or nil.
func (w *soakWorld) nodesAtRest() (err error) {
	w.Do(func() {
		owners := make(map[string]string)
		for name, m := range w.machines {
			n := w.Nodes[name]
			switch {
			case !w.lives(m):
				continue
			case n == nil:
				m.register = true // its kubelet is restarted
				err = fmt.Errorf("%s has no Node", name)
				return
			case instanceOf(n) != m.at.ID, !isReady(n), len(n.Spec.Taints) > 0, len(n.Spec.PodCIDRs) != 1:
				err = fmt.Errorf("%s of %s has %q, %v, %v", name, m.at.ID, n.Spec.ProviderID, n.Spec.Taints, n.Spec.PodCIDRs)
				return
			case n.Labels[corev1.LabelTopologyZone] != m.at.Zone || !slices.Contains(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: m.at.Private.String()}):
				err = fmt.Errorf("%s has %v, %v", name, n.Labels, n.Status.Addresses)
				return
			case owners[n.Spec.PodCIDR] != "":
				err = fmt.Errorf("%s and %s have %s", name, owners[n.Spec.PodCIDR], n.Spec.PodCIDR)
				w.t.Error(err) // and will not change
				return
			case !slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
				return c.Type == corev1.NodeNetworkUnavailable && c.Status == corev1.ConditionFalse
			}):
				err = fmt.Errorf("%s does not know its route", name)
				return
			}
			owners[n.Spec.PodCIDR] = name
		}
	})
	return err
}

// tablesAtRest returns why a table does not hold exactly what is wanted, or nil.
func (w *soakWorld) tablesAtRest() error {
	want := make(map[string]string)
	w.Do(func() {
		for name, n := range w.Nodes {
			if m := w.machines[name]; m != nil && w.lives(m) {
				for _, table := range w.tables {
					want[table+" "+n.Spec.PodCIDR] = m.at.Interface
				}
			}
		}
		for at, target := range w.foreign {
			want[at] = target
		}
	})
	n := 0
	for _, table := range w.tables {
		for _, r := range w.aws.Routes(table) {
			at := table + " " + r.Destination
			switch target := want[at]; {
			case r.Target == "local":
			case target == "":
				return fmt.Errorf("%s leads to %s, and no Node needs it", at, r.Target)
			case r.Target != target || r.State != "active":
				return fmt.Errorf("%s leads to %s, %s, want %s", at, r.Target, r.State, target)
			default:
				n++
			}
		}
	}
	if n != len(want) {
		return fmt.Errorf("%d routes, want %d", n, len(want))
	}
	return nil
}
