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
)

// view follows all Nodes. It complains as soon as a Node gets podCIDRs that another
// Node has.
type view struct {
	mu    sync.Mutex
	nodes map[string]seen
	twice []string // complaints
}

// seen is what the watch shows of a Node.
type seen struct {
	uid      string
	cidrs    []netip.Prefix
	deleting bool
	at       time.Time // when it had podCIDRs first
}

// watch follows the Nodes until the test ends.
func (l *lab) watch() *view {
	l.t.Helper()
	client, err := kube.NewClient(kube.Options{Kubeconfig: l.Admin(), Name: "test"})
	if err != nil {
		l.t.Fatal(err)
	}
	v := &view{nodes: make(map[string]seen)}
	w := &kube.Watch[kube.Node]{
		Client: client, Path: kube.Nodes, Format: kube.WholeNode, Sink: v, Report: func(error) {},
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
		for _, text := range v.complaints() {
			l.t.Error(text)
		}
	})
	return v
}

func (v *view) complaints() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.twice)
}

// forgive forgets the complaints, and returns them.
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
	name, before := string(n.Name), v.nodes[string(n.Name)]
	now := seen{uid: string(n.UID), deleting: n.Deleting}
	if before.uid == now.uid {
		now.cidrs, now.at = before.cidrs, before.at
	}
	if len(now.cidrs) == 0 && len(n.PodCIDRs()) > 0 {
		now.at = time.Now()
		for _, text := range n.PodCIDRs() {
			// The server accepts nothing else.
			now.cidrs = append(now.cidrs, netip.MustParsePrefix(string(text)).Masked())
		}
		for other, o := range v.nodes {
			if other != name && overlap(now.cidrs, o.cidrs) {
				v.twice = append(v.twice, fmt.Sprintf("%s got %v while %s had %v", name, now.cidrs, other, o.cidrs))
			}
		}
	}
	v.nodes[name] = now
}

func overlap(a, b []netip.Prefix) bool {
	for _, p := range a {
		if slices.ContainsFunc(b, p.Overlaps) {
			return true
		}
	}
	return false
}

// Delete implements kube.Sink.
func (v *view) Delete(n *kube.Node) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.nodes, string(n.Name))
}

// List implements kube.Sink.
func (v *view) List() kube.List[kube.Node] { return &viewList{v, make(map[string]bool)} }

// viewList is a full list while it arrives. Its Nodes count at once.
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
	maps.DeleteFunc(l.v.nodes, func(name string, _ seen) bool { return !l.has[name] })
	return true
}

// await waits until the Nodes are as f wants.
func (l *lab) await(limit time.Duration, f func(all map[string]seen) error) {
	l.t.Helper()
	kerneltest.Eventually(l.t, limit, func() error {
		l.view.mu.Lock()
		defer l.view.mu.Unlock()
		return f(l.view.nodes)
	})
}

// served waits until these Nodes have podCIDRs, and returns when the last one got
// them. Without names it waits for all Nodes that were not deleted.
func (l *lab) served(limit time.Duration, names ...string) (last time.Time) {
	l.t.Helper()
	if len(names) == 0 {
		names = slices.Collect(maps.Keys(l.names))
	}
	l.await(limit, func(all map[string]seen) error {
		without := 0
		for _, name := range names {
			n := all[name]
			if len(n.cidrs) == 0 {
				without++
			}
			if n.at.After(last) {
				last = n.at
			}
		}
		if without > 0 {
			return fmt.Errorf("%d Nodes have no podCIDRs", without)
		}
		return nil
	})
	return last
}
