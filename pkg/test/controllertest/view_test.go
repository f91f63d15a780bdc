//go:build kube

package controllertest

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/kube"
	"github.com/tulle-net/tulle/subnet"
)

// view follows all Nodes. It records a conflict as soon as a Node gets podCIDRs that
// another Node has.
type view struct {
	mu     sync.Mutex
	nodes  map[string]seen
	taken  subnet.Pair[subnet.Set]          // all blocks
	owners map[netip.Prefix]map[string]bool // the names of the Nodes that have each block
	twice  []string                         // the conflicts
}

// seen is what the watch has shown of a Node.
type seen struct {
	uid      string
	cidrs    []netip.Prefix
	deleting bool
	at       time.Time // when it first had podCIDRs
}

// watch follows the Nodes until the test ends.
func (l *lab) watch() *view {
	l.t.Helper()
	v := &view{nodes: make(map[string]seen), owners: make(map[netip.Prefix]map[string]bool)}
	l.t.Cleanup(func() { // after the last event
		for _, text := range v.complaints() {
			l.t.Error(text)
		}
	})
	l.follow(v)
	return v
}

// follow shows a Sink the Nodes until the test ends.
func (l *lab) follow(to kube.Sink[kube.Node]) {
	l.t.Helper()
	client, err := kube.NewClient(kube.Options{Kubeconfig: l.Admin(), Name: "test"})
	if err != nil {
		l.t.Fatal(err)
	}
	w := &kube.Watch[kube.Node]{
		Client: client, Path: kube.Nodes, Format: kube.WholeNode, Sink: to, Report: func(error) {},
		Pause: func(ctx context.Context, _ int, _ error) error { return kube.Pause(ctx, 1, nil) },
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.Run(ctx)
	}()
	l.t.Cleanup(func() {
		cancel()
		<-done
		client.Close()
	})
}

func (v *view) complaints() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.twice)
}

// forgive returns the conflicts, and clears them.
func (v *view) forgive() (texts []string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	texts, v.twice = v.twice, nil
	return texts
}

func (v *view) all() map[string]seen {
	v.mu.Lock()
	defer v.mu.Unlock()
	return maps.Clone(v.nodes)
}

// Set implements kube.Sink.
func (v *view) Set(n *kube.Node) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.set(n)
}

func (v *view) set(n *kube.Node) {
	name := string(n.Name)
	if v.nodes[name].uid != string(n.UID) {
		v.forget(name)
	}
	now := v.nodes[name]
	now.uid, now.deleting = string(n.UID), n.Deleting
	if len(now.cidrs) == 0 && len(n.PodCIDRs()) > 0 {
		now.at = time.Now()
		for _, text := range n.PodCIDRs() {
			// The server accepts no other podCIDRs.
			now.cidrs = append(now.cidrs, netip.MustParsePrefix(string(text)).Masked())
		}
		v.own(name, now.cidrs)
	}
	v.nodes[name] = now
}

// own records a Node as the owner of blocks. It records a conflict if they overlap
// another Node's.
func (v *view) own(name string, blocks []netip.Prefix) {
	for _, p := range blocks {
		taken := &v.taken[subnet.FamilyOf(p.Addr())]
		for block := range taken.Overlapping(p) {
			for other := range v.owners[block] {
				v.twice = append(v.twice, fmt.Sprintf("%s got %v while %s had %v", name, p, other, block))
			}
		}
		taken.Take(p)
		if v.owners[p] == nil {
			v.owners[p] = make(map[string]bool)
		}
		v.owners[p][name] = true
	}
}

// forget removes a Node.
func (v *view) forget(name string) {
	for _, p := range v.nodes[name].cidrs {
		v.taken[subnet.FamilyOf(p.Addr())].Free(p)
		delete(v.owners[p], name)
	}
	delete(v.nodes, name)
}

// Delete implements kube.Sink.
func (v *view) Delete(n *kube.Node) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.forget(string(n.Name))
}

// List implements kube.Sink.
func (v *view) List() kube.List[kube.Node] { return &viewList{v, make(map[string]bool)} }

// viewList is a full list while it arrives. It passes each Node on at once.
type viewList struct {
	v   *view
	has map[string]bool
}

// Add implements kube.List.
func (l *viewList) Add(n *kube.Node) bool {
	isNew := !l.has[string(n.Name)]
	l.has[string(n.Name)] = true
	l.v.Set(n)
	return isNew
}

// Delete implements kube.List.
func (l *viewList) Delete(n *kube.Node) { delete(l.has, string(n.Name)) }

// Done implements kube.List.
func (l *viewList) Done() bool {
	l.v.mu.Lock()
	defer l.v.mu.Unlock()
	for name := range l.v.nodes {
		if !l.has[name] {
			l.v.forget(name)
		}
	}
	return true
}

// await waits until f accepts the Nodes.
func (l *lab) await(limit time.Duration, f func(all map[string]seen) error) {
	l.t.Helper()
	kerneltest.Eventually(l.t, limit, func() error {
		l.view.mu.Lock()
		defer l.view.mu.Unlock()
		return f(l.view.nodes)
	})
}

// served waits until these Nodes have podCIDRs, and returns when the last one got them.
// Without names it waits for all Nodes that were not deleted.
func (l *lab) served(limit time.Duration, names ...string) (last time.Time) {
	l.t.Helper()
	if len(names) == 0 {
		names = slices.Collect(maps.Keys(l.names))
	}
	next := 0 // the first of the Nodes without podCIDRs
	l.await(limit, func(all map[string]seen) error {
		for ; next < len(names); next++ {
			n := all[names[next]]
			if len(n.cidrs) == 0 {
				return fmt.Errorf("%s has no podCIDRs, %d Nodes have", names[next], next)
			}
			if n.at.After(last) {
				last = n.at
			}
		}
		return nil
	})
	return last
}
