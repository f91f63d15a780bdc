package move

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tulle-net/tulle/backend"
	"github.com/tulle-net/tulle/subnet"
)

// net is a network of nodes, each with a view of the store of its own age.
type net struct {
	t      *testing.T
	rand   *rand.Rand
	config []string // every one so far
	nodes  []*node
	writes []write // of leases, in the order of the store
	log    []string
	shut   int // ways that were closed
}

// closed stands for a way that a strict config forbids, to a peer that has gone back to
// another config. Packets wait for the same config then.
const closed = "closed"

type write struct {
	node  int
	lease subnet.Lease
}

// node is one node: its kernel, and a daemon with what it knows.
type node struct {
	*net
	n       int
	flannel bool
	cut     bool // off the store
	dead    bool

	// The kernel.
	links map[string]bool
	out   map[int]string
	in    map[int]map[string]bool

	// The daemon.
	read      int // writes of the store
	config    int
	kinds     []string // that it holds
	peers     map[int]subnet.Lease
	before    map[int]Before
	lacks     map[int]error
	published subnet.Lease
	seen      subnet.Attrs // of published, in the store
	round     int
	applied   bool
	idle      map[string]int // rounds for which a backend was unneeded
}

func newNet(t *testing.T, seed uint64, size int, config string) *net {
	w := &net{t: t, rand: rand.New(rand.NewPCG(seed, 1)), config: []string{config}}
	w.log = append(w.log, fmt.Sprintf("seed %d, config %s", seed, config))
	for n := range size {
		d := &node{net: w, n: n, kinds: []string{config}, peers: make(map[int]subnet.Lease), before: make(map[int]Before), lacks: make(map[int]error), idle: make(map[string]int)}
		d.published = lease(n, fmt.Sprint("node-", n), held(config).Target().Type, subnet.Move{})
		w.nodes = append(w.nodes, d)
		w.writes = append(w.writes, write{n, d.published})
	}
	for _, d := range w.nodes {
		d.readAll()
		d.apply()
	}
	return w
}

func (d *node) say(format string, args ...any) {
	d.log = append(d.log, fmt.Sprintf("%d: ", d.n)+fmt.Sprintf(format, args...))
}

// readAll reads all that is new in the store.
func (d *node) readAll() {
	for d.read < len(d.writes) && !d.cut {
		d.readOne()
	}
}

func (d *node) readOne() {
	if d.read == len(d.writes) || d.cut {
		return
	}
	w := d.writes[d.read]
	d.read++
	d.applied = false
	if w.node == d.n {
		d.seen = w.lease.Attrs
		return
	}
	d.peers[w.node] = w.lease
}

func (d *node) held() Backends {
	b := held(d.kinds...)
	b.round = d.round
	return b
}

// configure reads the config.
func (d *node) configure() {
	last := len(d.net.config) - 1
	if d.config == last || d.flannel || d.cut {
		return
	}
	d.config = last
	d.round = d.published.Round() + 1
	kind := d.net.config[last]
	d.kinds = append([]string{kind}, slices.DeleteFunc(slices.Clone(d.kinds), func(k string) bool { return same(k, kind) })...)
	d.idle, d.applied = make(map[string]int), false
	d.say("holds %v", d.kinds)
}

// same reports whether two types are the same, strict or not.
func same(a, b string) bool { return held(a).Target().Type == held(b).Target().Type }

// apply gives the kernel what is desired.
func (d *node) apply() {
	if d.dead {
		return
	}
	b := d.held()
	d.links, d.out, d.in = make(map[string]bool), make(map[int]string), make(map[int]map[string]bool)
	for _, kind := range b.Types() {
		d.links[kind] = true
	}
	for n, l := range d.peers {
		way := b.Peer(d.published, l, &d.seen, backend.PlainMetrics, d.before[n])
		if was := d.before[n].By; was != way.By {
			d.say("sends to %d by %q, after %q", n, way.By, was)
			if b.IsStrict() && was == b.Target().Type && way.By != "" {
				d.fatal("left the strict backend")
			}
		}
		d.before[n], d.lacks[n] = way.Before, way.Target
		d.out[n], d.in[n] = linkOf(way.Objects, prefix(n))
		if d.out[n] == "" && b.IsStrict() {
			d.out[n] = closed
			d.shut++
		}
	}
	d.applied = true
}

func (d *node) state() State {
	b := d.held()
	return State{
		Held: b.Types(), Published: d.published.Attrs, Seen: d.seen, InPlace: d.links[b.Target().Type], Settled: d.applied,
		Peers: func(yield func(Peer) bool) {
			for n, l := range d.peers {
				if !yield(Peer{Key: l.Key(), Attrs: &l.Attrs, By: d.before[n].By, Lacks: d.lacks[n]}) {
					return
				}
			}
		},
	}
}

// publish writes what the plan says.
func (d *node) publish() {
	if d.cut || d.dead || d.flannel {
		return
	}
	a := d.held().Publish(d.state().Plan())
	a.Node.ID, a.Node.MTU = d.published.Node.ID, 0
	if a != d.published.Attrs {
		d.say("publishes %s %s", a.BackendType, a.Move)
		d.published.Attrs, d.applied = a, false
		d.writes = append(d.writes, write{d.n, d.published})
	}
}

// drop drops what was unneeded for two rounds.
func (d *node) drop() {
	if d.dead || d.flannel {
		return
	}
	unneeded := d.state().Plan().Unneeded
	for kind := range maps.Keys(d.idle) {
		if !slices.Contains(unneeded, kind) {
			delete(d.idle, kind)
		}
	}
	for _, kind := range unneeded {
		if d.idle[kind]++; d.idle[kind] > 2 {
			d.say("drops %s", kind)
			d.kinds = slices.DeleteFunc(d.kinds, func(k string) bool { return same(k, kind) })
			d.applied = false
		}
	}
}

// restart kills the daemon. The kernel stays, and the next run reads everything before it
// changes anything.
func (d *node) restart() {
	if d.cut || d.dead || d.flannel {
		return
	}
	d.say("restarts")
	d.peers, d.before, d.lacks, d.idle = make(map[int]subnet.Lease), make(map[int]Before), make(map[int]error), make(map[string]int)
	d.read, d.applied = 0, false
	d.readAll()
	d.configure()
}

func (w *net) fatal(what string) {
	w.t.Helper()
	for _, line := range w.log {
		w.t.Log(line)
	}
	w.t.Fatal(what)
}

// check checks that every packet arrives.
func (w *net) check() {
	w.t.Helper()
	for _, from := range w.nodes {
		for n, kind := range from.out {
			to := w.nodes[n]
			if from.dead || to.dead {
				continue
			}
			if kind == closed {
				continue
			}
			if kind == "" || !to.links[kind] || !to.in[from.n][kind] {
				w.fatal(fmt.Sprintf("%d sends to %d by %q, which has %v, and for it %v", from.n, n, kind, to.links, to.in[from.n]))
			}
		}
	}
}

// round lets every node do everything in a random order, and some of it more often.
func (w *net) round() {
	steps := make([]func(), 0, 10*len(w.nodes))
	for _, d := range w.nodes {
		steps = append(steps, d.readAll, d.configure, d.apply, d.publish, d.readOne, d.apply, d.publish, d.readOne)
	}
	w.rand.Shuffle(len(steps), func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })
	for _, step := range steps {
		step()
		w.check()
	}
	for _, d := range w.nodes {
		d.readAll()
		d.configure()
		d.apply()
		w.check()
		d.publish()
		d.drop()
		w.check()
	}
}

// converge runs rounds until nothing changes, and checks that all have moved.
func (w *net) converge(to string) {
	w.t.Helper()
	for range 30 {
		w.round()
	}
	for _, d := range w.nodes {
		if d.dead || d.flannel {
			continue
		}
		if len(d.kinds) != 1 || !same(d.kinds[0], to) || d.published.Move != "" || !same(d.published.BackendType, to) {
			w.fatal(fmt.Sprintf("%d did not end: it holds %v and publishes %s %s; it waits for %v", d.n, d.kinds, d.published.BackendType, d.published.Move, d.state().Plan().Waits))
		}
	}
}

var (
	firstSeed = flag.Uint64("first-seed", 0, "the first seed of random networks")
	seeds     = flag.Uint64("seeds", 250, "how many random networks to run, each with the next seed")
)

// TestNoPacketIsLostWhateverTheOrder changes the config any number of times, restarts
// daemons and cuts nodes off the store, in random orders.
func TestNoPacketIsLostWhateverTheOrder(t *testing.T) {
	kinds := []string{"vxlan", "host-gw", "wireguard!", "udp"}
	shut := 0
	for i := range *seeds {
		seed := *firstSeed + i
		w := newNet(t, seed, 2+int(seed%4), kinds[seed%3])
		changes := 1 + w.rand.IntN(4)
		for range changes {
			w.config = append(w.config, kinds[w.rand.IntN(len(kinds))])
			w.log = append(w.log, "config "+w.config[len(w.config)-1])
			for range w.rand.IntN(6) {
				d := w.nodes[w.rand.IntN(len(w.nodes))]
				switch w.rand.IntN(4) {
				case 0:
					if changes == 1 { // see restart
						d.restart()
					}
				case 1:
					d.cut = !d.cut
					d.say("cut off: %v", d.cut)
				}
				w.check()
				w.round()
			}
		}
		for _, d := range w.nodes {
			d.cut = false
		}
		w.converge(w.config[len(w.config)-1])
		if shut += w.shut; changes == 1 && w.shut > 0 {
			w.fatal("closed a way in a single move")
		}
	}
	t.Logf("%d ways were closed for a while", shut)
}

// TestOfferReadLateStillHolds runs schedules in which node 0 reads late what node 1 has
// offered and withdrawn since. Node 1 still receives by that backend then.
func TestOfferReadLateStillHolds(t *testing.T) {
	// offered is how both nodes come to offer host-gw. Node 1 accepts it from node 0, which
	// has not read so.
	const offered = `config host-gw; 0 configure; 0 apply; 0 publish; 0 read; 0 apply; 0 publish;
		1 configure; 1 apply; 1 publish; 1 read; 1 apply; 1 publish;`
	for name, c := range map[string]struct {
		schedule string
		late     []string // what node 0 sends by, after each thing that it reads
	}{
		// As in seed 1740 of the random networks: node 0's own offer is in the store, so it
		// may send by host-gw.
		"cut off": {offered + `0 cut; config udp; 1 configure; 1 apply; 1 publish; 1 read; 1 apply; 1 publish;
			1 read; 1 apply; 1 drop; 1 drop; 1 drop; 1 apply; 0 back`,
			[]string{"vxlan", "host-gw", "vxlan"}},
		// Node 1 has not read that node 0 offers host-gw again.
		"offered again": {offered + `config udp; 0 configure; 0 apply; 0 publish; 1 read; 1 apply;
			config host-gw; 0 configure; 0 apply; 0 publish; 0 apply; 0 publish;
			config wireguard; 1 configure; 1 apply; 1 publish; 1 apply; 1 publish; 1 drop; 1 drop; 1 drop; 1 apply`,
			[]string{"vxlan", "vxlan", "vxlan", "host-gw", "vxlan"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newNet(t, 0, 2, "vxlan")
			w.play(c.schedule)
			d := w.nodes[0]
			var late []string
			for d.read < len(w.writes) {
				d.readOne()
				d.apply()
				w.check()
				late = append(late, d.out[1])
			}
			if !slices.Equal(late, c.late) {
				w.fatal(fmt.Sprintf("node 0 sent by %q, not by %q", late, c.late))
			}
			w.converge(w.config[len(w.config)-1])
		})
	}
}

// play runs the steps of a schedule, each "config" with a backend or a node with what it
// does, and checks after each that every packet arrives.
func (w *net) play(schedule string) {
	w.t.Helper()
	for step := range strings.SplitSeq(schedule, ";") {
		who, what, _ := strings.Cut(strings.TrimSpace(step), " ")
		if who == "config" {
			w.config = append(w.config, what)
			w.log = append(w.log, "config "+what)
			continue
		}
		n, err := strconv.Atoi(who)
		if err != nil {
			w.t.Fatal(err)
		}
		d := w.nodes[n]
		does := map[string]func(){
			"configure": d.configure, "apply": d.apply, "publish": d.publish, "read": d.readAll, "drop": d.drop,
			"cut": func() { d.cut = true }, "back": func() { d.cut = false },
		}[what]
		if does == nil {
			w.t.Fatalf("no step %q", step)
		}
		does()
		w.check()
	}
}

// TestFlannelNodeKeepsItsBackend moves a network with a flannel node: all others go on to
// reach it, and each other by the new backend.
func TestFlannelNodeKeepsItsBackend(t *testing.T) {
	for seed := range uint64(20) {
		w := newNet(t, seed, 4, "vxlan")
		w.nodes[3].flannel = true
		w.nodes[3].published.Node.ID = ""
		w.writes = append(w.writes, write{3, w.nodes[3].published})
		w.config = append(w.config, "wireguard!")
		for range 20 {
			w.round()
		}
		for _, d := range w.nodes[:3] {
			for n, before := range d.before {
				want := "wireguard"
				if n == 3 {
					want = "vxlan"
				}
				if before.By != want {
					w.fatal(fmt.Sprintf("%d sends to %d by %s", d.n, n, before.By))
				}
			}
			if p := d.state().Plan(); d.published.BackendType != "vxlan" || len(p.Waits) != 1 || p.Waits[0].Key != "10.5.3.0-24" || p.Switched != 2 {
				w.fatal(fmt.Sprintf("%d publishes %s, and plans %+v", d.n, d.published.BackendType, p))
			}
		}
		for _, d := range w.nodes[:3] { // it goes
			delete(d.peers, 3)
			delete(d.before, 3)
			delete(d.out, 3)
		}
		w.nodes[3].dead = true
		w.writes = slices.DeleteFunc(w.writes, func(x write) bool { return x.node == 3 })
		for _, d := range w.nodes {
			d.read = len(w.writes)
		}
		w.converge("wireguard")
	}
}

// TestDeadHostHoldsUpOnlyItself moves a network with a host that is down and has a lease.
func TestDeadHostHoldsUpOnlyItself(t *testing.T) {
	w := newNet(t, 1, 4, "vxlan")
	w.nodes[2].dead = true
	w.config = append(w.config, "host-gw")
	w.nodes[2].cut = true
	for range 20 {
		w.round()
	}
	for _, n := range []int{0, 1, 3} {
		for to, before := range w.nodes[n].before {
			if want := map[bool]string{true: "vxlan", false: "host-gw"}[to == 2]; before.By != want {
				w.fatal(fmt.Sprintf("%d sends to %d by %s", n, to, before.By))
			}
		}
	}
	w.nodes[2].dead, w.nodes[2].cut = false, false // it boots again
	w.nodes[2].restart()
	w.converge("host-gw")
}
