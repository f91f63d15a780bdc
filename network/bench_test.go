package network

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/pkg/test/logtest"
	"github.com/tulle-net/tulle/subnet"
)

var benchPeers = flag.String("peers", "", "sizes of networks to measure, such as 1000,10000; prints tables")

// scale is what a benchmark measures. Without -peers, it measures everything once in
// two small networks, as a test of itself.
type scale struct {
	sizes  []int // of the networks
	most   int   // largest size of the closer measurements
	rounds func(peers int) int
	each   int // repetitions of quick measurements
	to     io.Writer
}

func benchScale(t *testing.T) scale {
	if *benchPeers == "" {
		return scale{[]int{5, 1100}, 5, func(int) int { return 1 }, 1, t.Output()}
	}
	s := scale{to: os.Stdout, each: 50, rounds: func(peers int) int {
		if peers <= 10000 {
			return 5
		}
		return 3
	}}
	for _, text := range strings.Split(*benchPeers, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > 100000 {
			t.Fatalf("-peers has %q: write numbers from 1 to 100000 with commas between", text)
		}
		s.sizes = append(s.sizes, n)
		if n <= 10000 {
			s.most = max(s.most, n)
		}
	}
	if s.most == 0 {
		s.most = slices.Min(s.sizes)
	}
	return s
}

// TestBench measures a node and, in turns, iproute2's batch mode with the same entries
// in an equal namespace.
func TestBench(t *testing.T) {
	s := benchScale(t)
	logtest.Capture(t, 0)
	var runs []*run
	for _, backend := range []string{"vxlan", "host-gw"} {
		for _, peers := range s.sizes {
			r := &run{backend: backend, peers: peers}
			runs = append(runs, r)
			for round := range s.rounds(peers) {
				s.progress("%s, %d peers, round %d", backend, peers, round+1)
				r.round(t, round == 0)
				if t.Failed() {
					return
				}
			}
		}
	}
	s.progress("one more peer among %d", s.most)
	var more single
	t.Run("one more", func(t *testing.T) { more.measure(t, s.most, 4*s.each) })
	s.progress("memory")
	memory := measureMemory(t, s.sizes)
	heals := measureHeals(t, s)
	if t.Failed() {
		return
	}
	s.report(runs, &more, memory, heals)
}

func (s scale) progress(format string, args ...any) {
	if *benchPeers != "" {
		fmt.Fprintf(os.Stderr, format+"\n", args...)
	}
}

// run is the measurement with one number of peers.
type run struct {
	backend string
	peers   int

	cold, coldBatch, coldRaw, coldPlain sample
	resync, show, dumpDiff              sample
	drift, driftBatch                   sample
	gone, goneBatch                     sample
}

// round measures everything once, each side in a fresh namespace.
func (r *run) round(t *testing.T, check bool) {
	t.Run(fmt.Sprintf("%s %d tulle", r.backend, r.peers), func(t *testing.T) { r.tulle(t, check) })
	t.Run(fmt.Sprintf("%s %d batch", r.backend, r.peers), func(t *testing.T) { r.batch(t, check) })
	t.Run(fmt.Sprintf("%s %d raw", r.backend, r.peers), func(t *testing.T) { r.raw(t) })
	if r.peers <= 10000 && r.spread() {
		t.Run(fmt.Sprintf("%s %d plain batch", r.backend, r.peers), func(t *testing.T) { r.plain(t) })
	}
}

// spread reports whether a network with that many peers spreads its routes over many
// metrics.
func (r *run) spread() bool { return r.peers > 1000 }

// onePercent returns one of a hundred peers, and at least one.
func onePercent(leases []subnet.Lease) []subnet.Lease {
	var some []subnet.Lease
	for i := 0; i < len(leases); i += 100 {
		some = append(some, leases[i])
	}
	return some
}

func (r *run) tulle(t *testing.T, check bool) {
	h := newBenchHost(t, r.backend)
	h.start()
	leases := h.crowd(1, r.peers)
	r.cold.time(func() {
		h.peers.Update(subnet.Update{Complete: true, Leases: leases})
		h.synced()
	})
	if check {
		h.want(h.entries(leases, r.spread()))
	}
	for range 3 {
		before := h.loop.Status().Resyncs
		runtime.GC()
		h.tap.overrun()
		h.synced()
		if s := h.loop.Status(); s.Resyncs == before+1 {
			r.resync = append(r.resync, s.ResyncTook)
		} else {
			t.Errorf("an overrun made %d resyncs", s.Resyncs-before)
		}
		r.show.time(h.show)
		r.dumpDiff.time(h.dumpDiff(leases, r.spread()))
	}
	r.tulleDrift(t, h, leases, check)
	leases = nil
	r.gone.time(func() {
		h.peers.Update(subnet.Update{Complete: true})
		dropAllLingering(h.peers)
		h.synced()
	})
	if check {
		h.want(nil)
	}
}

// dumpDiff returns a resync without the loop around it.
func (h *benchHost) dumpDiff(leases []subnet.Lease, spread bool) func() {
	want := netstate.Of(append(h.backend.Host(h.own), h.entries(leases, spread)...)...)
	return func() {
		if plan := netstate.Diff(want, h.dump()); len(plan) > 0 {
			h.t.Errorf("there is something to do: %s", plan[0])
		}
	}
}

// tulleDrift deletes 1 % of the objects as another program would, while the loop gets
// no events.
func (r *run) tulleDrift(t *testing.T, h *benchHost, leases []subnet.Lease, check bool) {
	missing := h.entries(onePercent(leases), r.spread())
	last := netstate.Neigh{Link: "eth0", IP: h.own.PublicIP[subnet.IPv4].Prev(), MAC: netstate.MAC{0x3a}}
	_, line := command(last)
	heard := h.tap.deafen(last.Key())
	h.run(h.write("del", missing, fmt.Sprintf(line, "add")))
	<-heard
	before := h.loop.Status()
	runtime.GC()
	h.tap.overrun()
	h.synced()
	after := h.loop.Status()
	r.drift = append(r.drift, after.ResyncTook)
	for k, healed := range count(missing) {
		if found := after.Healed[k] - before.Healed[k]; found != healed {
			t.Errorf("%d of %d deleted objects of kind %s were healed", found, healed, k)
		}
	}
	if check {
		h.want(h.entries(leases, r.spread()))
	}
}

func count(objects []netstate.Object) map[netstate.Kind]uint64 {
	n := make(map[netstate.Kind]uint64)
	for _, o := range objects {
		n[o.Key().Kind]++
	}
	return n
}

func (r *run) batch(t *testing.T, check bool) {
	h := newBenchHost(t, r.backend)
	leases := h.crowd(1, r.peers)
	all := h.entries(leases, r.spread())
	add, del := h.write("add", all), h.write("del", all)
	some := h.entries(onePercent(leases), r.spread())
	addSome, delSome := h.write("add", some), h.write("del", some)
	r.coldBatch.time(func() { h.run(add) })
	if check {
		h.want(all)
	}
	h.run(delSome)
	r.driftBatch.time(func() { h.show(); h.run(addSome) })
	r.goneBatch.time(func() { h.run(del) })
	if check {
		h.want(nil)
	}
}

// raw writes the same entries to the kernel without a daemon.
func (r *run) raw(t *testing.T) {
	h := newBenchHost(t, r.backend)
	plan := planOf(netstate.Create, h.entries(h.crowd(1, r.peers), r.spread()))
	r.coldRaw.time(func() {
		if err := h.stranger.Apply(context.Background(), plan); err != nil {
			t.Error(err)
		}
	})
}

// plain makes the batch tools write routes as flannel does, all with metric 0.
func (r *run) plain(t *testing.T) {
	h := newBenchHost(t, r.backend)
	add := h.write("add", h.entries(h.crowd(1, r.peers), false))
	r.coldPlain.time(func() { h.run(add) })
}

// single measures one more peer among many.
type single struct {
	among                    int
	tulle, gone, tools, bare sample
}

func (s *single) measure(t *testing.T, among, times int) {
	s.among = among
	h := newBenchHost(t, "vxlan")
	h.start()
	h.peers.Update(subnet.Update{Complete: true, Leases: h.crowd(1, among)})
	h.synced()
	other := newBenchHost(t, "vxlan")
	other.apply(netstate.Create, other.entries(other.crowd(1, among), among > 1000))
	for i := range times {
		one := h.crowd(1+among+i, 1)
		s.tulle.take(func() {
			h.peers.Update(subnet.Update{Leases: one})
			h.synced()
		})
		plan := planOf(netstate.Create, other.entries(one, among > 1000))
		s.bare.take(func() {
			if err := other.stranger.Apply(context.Background(), plan); err != nil {
				t.Error(err)
			}
		})
		if i%4 > 0 {
			continue
		}
		trio := other.entries(other.crowd(1+among+times+i, 1), among > 1000)
		s.tools.take(func() {
			for _, o := range trio {
				tool, line := command(o)
				other.tool(tool, strings.Fields(fmt.Sprintf(line, "add"))...)
			}
		})
	}
	h.want(h.entries(h.crowd(1, among+times), among > 1000))
	for i := range times {
		key := subnet.FormatKey(h.crowd(1+among+i, 1)[0].Subnets)
		s.gone.take(func() {
			h.peers.Update(subnet.Update{Gone: []string{key}})
			dropAllLingering(h.peers)
			h.synced()
		})
	}
	h.want(h.entries(h.crowd(1, among), among > 1000))
}

// held is the memory that a peer needs.
type held struct {
	backend string
	peers   int
	bytes   float64 // per peer
}

func measureMemory(t *testing.T, sizes []int) []held {
	var all []held
	for _, backend := range []string{"vxlan", "host-gw"} {
		for _, peers := range sizes {
			t.Run(fmt.Sprintf("memory %s %d", backend, peers), func(t *testing.T) {
				h := newBenchHost(t, backend)
				h.start()
				before := liveHeap()
				// Only the node keeps the leases.
				h.peers.Update(subnet.Update{Complete: true, Leases: h.crowd(1, peers)})
				h.synced()
				after := liveHeap()
				all = append(all, held{backend, peers, (after - before) / float64(peers)})
				runtime.KeepAlive(h)
			})
		}
	}
	return all
}

func liveHeap() float64 {
	runtime.GC()
	runtime.GC() // what finalizers freed
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// sample is the durations of one thing that was measured repeatedly.
type sample []time.Duration

// time times a long operation. It begins without garbage, like the other side.
func (s *sample) time(f func()) {
	runtime.GC()
	s.take(f)
}

func (s *sample) take(f func()) {
	start := time.Now()
	f()
	*s = append(*s, time.Since(start))
}

func (s sample) min() time.Duration { return slices.Min(s) }
func (s sample) max() time.Duration { return slices.Max(s) }

func (s sample) median() time.Duration {
	sorted := slices.Sorted(slices.Values(s))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
