package nodeipam

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/controller"
	"github.com/tulle-net/tulle/pkg/election"
	"github.com/tulle-net/tulle/pkg/kube"
	"github.com/tulle-net/tulle/pkg/test/bubbletest"
)

// world is a cluster whose controller is killed, stopped and replaced at any moment. It
// makes writes as an API server does, some of them late, without an answer, or both.
type world struct {
	t       *testing.T
	rnd     *rand.Rand
	nodes   map[string]node
	version int64
	made    int

	leader *lab
	unseen []func(l *lab)     // what the watch has yet to show to the leader
	flying []controller.Write // of the leader
	late   []func() error     // writes of leaders that are gone, or that were given up
	owners map[string]string  // of every block, as the cluster has them
}

// set writes a Node, which the watch will show.
func (w *world) set(v node) {
	w.version++
	v.version, v.revision = fmt.Sprint(w.version), w.version
	w.nodes[v.Name] = v
	w.unseen = append(w.unseen, func(l *lab) { l.set(v.Name, v) })
}

func (w *world) create() {
	w.made++
	name := fmt.Sprint("n", w.rnd.IntN(40)) // names come back
	if _, is := w.nodes[name]; !is {
		v := stateOf(name, fmt.Sprint("u", w.made), 0)
		v.Created = int64(w.made)
		w.set(v)
	}
}

// any returns the name of some Node.
func (w *world) any() string {
	names := slices.Sorted(maps.Keys(w.nodes))
	return names[w.rnd.IntN(len(names))]
}

func (w *world) remove(name string) {
	for _, c := range w.nodes[name].CIDRs {
		delete(w.owners, c)
	}
	delete(w.nodes, name)
	w.unseen = append(w.unseen, func(l *lab) { l.delete(name) })
}

// send returns what makes a write of the leader, as it is now.
func (w *world) send(what controller.Write) func() error {
	a := w.leader.attempts[what.Object.Name]
	name, uid, version, cidrs, answer := a.name, a.uid, a.version, a.cidrs, a.answer
	return func() error {
		n, is := w.nodes[name]
		switch {
		case !is:
			return &kube.Error{Code: 404}
		case n.UID != uid || n.version != version:
			return &kube.Error{Code: conflict}
		case cidrs != nil && len(n.CIDRs) > 0:
			return &kube.Error{Code: 422}
		}
		n.CIDRs = cidrs
		for _, c := range cidrs {
			if other := w.owners[c]; other != "" {
				w.t.Fatalf("%s gets %s, which %s has", name, c, other)
			}
			w.owners[c] = name
		}
		w.set(n)
		answer.ResourceVersion = w.nodes[name].version
		return nil
	}
}

// lead begins a term of a new process. The last one may have ended in any way.
func (w *world) lead(clean bool) {
	for _, f := range w.flying {
		w.late = append(w.late, w.send(f))
	}
	w.flying, w.unseen = nil, nil
	w.leader = newLab(w.t, "10.1.0.0/19")
	w.leader.Lead(election.Term{Clean: clean})
	w.leader.lists++
	w.leader.list(w.leader.lists, maps.Clone(w.nodes))
}

// end ends the i-th write in flight.
func (w *world) end(i int) {
	f := w.flying[i]
	w.flying = slices.Delete(w.flying, i, i+1)
	send := w.send(f)
	switch n := w.rnd.IntN(10); {
	case n < 6:
		w.leader.Done(f, send())
	case n < 7: // made, and the answer is lost
		_ = send()
		w.leader.Done(f, errLost)
	case n < 8: // made later, or never
		w.late = append(w.late, send)
		w.leader.Done(f, errLost)
	default:
		w.leader.Done(f, &kube.Error{Code: []int{429, 500, 503, conflict}[w.rnd.IntN(4)]})
	}
}

// step makes one random change.
func (w *world) step() {
	switch n := w.rnd.IntN(20); {
	case n < 3 && len(w.nodes) < 30:
		w.create()
	case n < 4 && len(w.nodes) > 0:
		w.remove(w.any())
	case n < 6 && len(w.nodes) > 0: // a kubelet reports
		w.set(w.nodes[w.any()])
	case n < 10 && len(w.unseen) > 0:
		w.unseen[0](w.leader)
		w.unseen = w.unseen[1:]
	case n < 14:
		writes, _ := w.leader.Plan(time.Now(), 8-len(w.flying))
		w.flying = append(w.flying, writes...)
	case n < 18 && len(w.flying) > 0:
		w.end(w.rnd.IntN(len(w.flying)))
	case n < 19 && len(w.late) > 0:
		i := w.rnd.IntN(len(w.late))
		_ = w.late[i]()
		w.late = slices.Delete(w.late, i, i+1)
	default:
		w.leader.pass(time.Duration(w.rnd.Int64N(int64(5 * time.Second))))
	}
}

// settle lets everything end well, until the leader has nothing to do.
func (w *world) settle() {
	for _, send := range w.late {
		_ = send()
	}
	w.late = nil
	for quiet := 0; quiet < 3; quiet++ {
		for _, show := range w.unseen {
			show(w.leader)
		}
		w.unseen = nil
		writes, _ := w.leader.plan()
		for _, f := range append(w.flying, writes...) {
			w.leader.Done(f, w.send(f)())
			quiet = 0
		}
		w.flying = nil
		w.leader.pass(2 * time.Minute)
	}
}

// However often the controller is killed or stopped while Nodes come and go, no two
// Nodes have one block at any time, and in the end every block can be given.
func TestFiveHundredKillsLoseAndDoubleNothing(t *testing.T) {
	const worlds, kills = 10, 50
	for seed := range uint64(worlds) {
		bubbletest.Test(t, func(t *testing.T) {
			w := &world{t: t, rnd: rand.New(rand.NewPCG(seed, 15)), nodes: make(map[string]node), owners: make(map[string]string)}
			w.lead(true)
			for range kills {
				for range w.rnd.IntN(200) {
					w.step()
				}
				w.lead(false)
			}
			w.settle()
			for len(w.nodes) < 32 {
				w.create()
			}
			w.settle()
			blocks := make(map[netip.Prefix]bool)
			for name, n := range w.nodes {
				if len(n.CIDRs) != 1 {
					t.Errorf("seed %d: %s has %q, and a block is left for it", seed, name, n.CIDRs)
					continue
				}
				blocks[netip.MustParsePrefix(n.CIDRs[0])] = true
			}
			if r := w.leader.Report(time.Now()); len(blocks) != 32 || r.Pools[0].Used != 32 || r.Waiting != 0 {
				t.Errorf("seed %d: %d blocks, %+v", seed, len(blocks), r)
			}
		})
	}
}
