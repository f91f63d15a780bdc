package reconcile

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/tulle-net/tulle/pkg/budget"
	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/pkg/test/bubbletest"
	"github.com/tulle-net/tulle/pkg/test/logtest"
)

func TestMain(m *testing.M) {
	log.Keep()
	goleak.VerifyTestMain(m)
}

// log is what the loop has logged. A test that reads it clears it first.
var log logtest.Log

const interval = 10 * time.Minute

// lab is a loop on a Fake, in a bubble of fake time.
type lab struct {
	*testing.T
	f    *kerneltest.Fake
	r    *Reconciler
	ctx  context.Context
	stop func() // ends Run and waits for its end
	// large is the size of the network that soak simulates.
	large bool
}

// run starts a loop on f in a bubble and calls test. It fails if the loop does not
// end at once when its context does.
func run(t *testing.T, f *kerneltest.Fake, test func(*lab)) {
	t.Helper()
	bubbletest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		l := &lab{T: t, f: f, r: New(f, interval, budget.New().Account(budget.KernelLimit, budget.Elapsed)), ctx: ctx}
		done := make(chan struct{})
		l.stop = sync.OnceFunc(func() {
			cancel()
			select {
			case <-done:
			case <-time.After(time.Millisecond):
				t.Error("Run does not end")
				f.Heal()
				<-done
			}
		})
		defer l.stop()
		go func() {
			defer close(done)
			l.r.Run(ctx)
		}()
		test(l)
	})
}

// running is run with the host's part set, everything complete and in sync, and the
// counts reset.
func running(t *testing.T, objects []netstate.Object, test func(*lab)) {
	t.Helper()
	f := kerneltest.NewFake(eth0)
	run(t, f, func(l *lab) {
		l.set("host", objects...)
		l.complete()
		l.synced()
		l.quiet()
		test(l)
	})
}

func (l *lab) set(owner string, objects ...netstate.Object) {
	l.r.Update(func(d *Desired) { d.Set(owner, objects) })
}

func (l *lab) remove(owner string) { l.r.Update(func(d *Desired) { d.Remove(owner) }) }

func (l *lab) complete() { l.r.Update(func(d *Desired) { d.Complete() }) }

// wait lets time pass, and waits until everything due is done.
func (l *lab) wait(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// quiet waits until the last events have arrived, and resets the counts and the log.
func (l *lab) quiet() {
	l.Helper()
	l.wait(time.Second)
	l.synced()
	l.f.ResetCounts()
	log.Take()
}

// synced waits for WaitSynced and checks that the kernel is in sync.
func (l *lab) synced() {
	l.Helper()
	ctx, cancel := context.WithTimeout(l.ctx, time.Hour)
	defer cancel()
	for range 2 { // our own changes of a link come back as events that need a check
		synctest.Wait()
		if err := l.r.WaitSynced(ctx); err != nil {
			l.Fatalf("not in sync: %v\n%s", err, l.dumpStatus())
		}
		l.holdsDesired()
	}
	s := l.r.Status()
	if !s.InSync || len(s.Failing) > 0 || s.Pending > 0 || s.DumpError != nil {
		l.Fatalf("in sync, but %s", l.dumpStatus())
	}
}

func (l *lab) dumpStatus() string {
	s := l.r.Status()
	if len(s.Failing) > 5 {
		s.Failing = s.Failing[:5]
	}
	return fmt.Sprintf("%+v", s)
}

// holdsDesired checks that the kernel holds everything desired, and nothing else of
// ours.
func (l *lab) holdsDesired() {
	l.Helper()
	l.r.mu.Lock()
	defer l.r.mu.Unlock()
	has := l.f.Snapshot()
	for o := range l.r.desired.state.All() {
		if is, ok := has.Get(o.Key()); !ok || is != o {
			l.Fatalf("want %s, there is %v", o, is)
		}
	}
	for o := range has.All() {
		_, wanted := l.r.desired.state.Get(o.Key())
		if !wanted && l.ours(o) {
			l.Fatalf("%s is still there", o)
		}
	}
}

func (l *lab) ours(o netstate.Object) bool {
	switch o := o.(type) {
	case netstate.Sysctl:
		return false
	case netstate.Route:
		return o.Protocol == 0
	default:
		return strings.HasPrefix(netstate.LinkOf(o), netstate.LinkPrefix)
	}
}

// has fails the test unless the kernel holds all of objects.
func (l *lab) has(objects ...netstate.Object) {
	l.Helper()
	for _, o := range objects {
		if !l.f.Has(o) {
			l.Errorf("there is no %s", o)
		}
	}
}

func (l *lab) hasNot(objects ...netstate.Object) {
	l.Helper()
	for _, o := range objects {
		if l.f.Has(o) {
			l.Errorf("there is %s", o)
		}
	}
}

// cost checks the calls since the last quiet or cost.
func (l *lab) cost(dumps, applies, steps int) {
	l.Helper()
	synctest.Wait()
	c := l.f.Counts()
	if c.Dumps != dumps || c.Applies != applies || c.Steps() != steps {
		l.Errorf("cost %d dumps, %d applies, %d steps; want %d, %d, %d", c.Dumps, c.Applies, c.Steps(), dumps, applies, steps)
	}
	l.f.ResetCounts()
}

// healed wants these counts of restored objects, by kind in the order of the kinds. The
// kinds before routes may be left out where all of them are zero.
func (l *lab) healed(want ...uint64) {
	l.Helper()
	left := int(netstate.KindRoute) + 1 - len(want)
	want = slices.Insert(slices.Clone(want), len(want)-1, make([]uint64, left)...)
	want = append(want, make([]uint64, len(netstate.Kinds())-len(want))...) // no commands
	var got []uint64
	s := l.r.Status()
	for _, k := range netstate.Kinds() {
		got = append(got, s.Healed[k])
	}
	if !slices.Equal(got, want) {
		l.Errorf("healed %v of %v, want %v", got, netstate.Kinds(), want)
	}
}

// failing returns what is refused, as "key of owner: error".
func (l *lab) failing() string {
	var b strings.Builder
	for i, f := range l.r.Status().Failing {
		if i > 0 {
			b.WriteString("; ")
		}
		fmt.Fprintf(&b, "%s of %q: %v", f.Key, f.Owner, f.Err)
	}
	return b.String()
}

var (
	pfx = netip.MustParsePrefix
	ip  = netip.MustParseAddr

	errTest = errors.New("injected")

	eth0 = netstate.Link{Name: "eth0", Kind: "device", MTU: 1500, Up: true}
	link = netstate.Link{
		Name: "tulle.1", Kind: "vxlan", MAC: netstate.MAC{2}, MTU: 1450, Up: true,
		Local: ip("192.0.2.1"), VXLAN: netstate.VXLAN{VNI: 1, Port: 8472},
	}
	addr    = netstate.Addr{Link: "tulle.1", Prefix: pfx("10.0.0.0/32")}
	addr6   = netstate.Addr{Link: "tulle.1", Prefix: pfx("fd00::/128")}
	setting = netstate.Sysctl{Path: "net/ipv4/conf/tulle.1/rp_filter", Value: "2"}
	forward = netstate.Sysctl{Path: "net/ipv4/conf/all/forwarding", Value: "1"}
)

// host returns what the host itself needs.
func host() []netstate.Object { return []netstate.Object{link, setting, forward, addr, addr6} }

// number returns the address n places after base.
func number(base uint32, n int) netip.Addr {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], base+uint32(n))
	return netip.AddrFrom4(b)
}

// subnet returns the nth peer's subnet.
func subnet(n int) netip.Prefix { return netip.PrefixFrom(number(10<<24, n<<8), 24) }

func hw(n int) netstate.MAC { return netstate.MAC{0x3a, 0, 0, byte(n >> 16), byte(n >> 8), byte(n)} }

func neigh(n int) netstate.Neigh {
	return netstate.Neigh{Link: "tulle.1", IP: subnet(n).Addr(), MAC: hw(n)}
}

func fdb(n int) netstate.FDB {
	return netstate.FDB{Link: "tulle.1", MAC: hw(n), Dst: number(172<<24|16<<16, n)}
}

func route(n int) netstate.Route {
	return netstate.Route{Dst: subnet(n), Via: subnet(n).Addr(), Link: "tulle.1", OnLink: true}
}

func route6(n int) netstate.Route {
	b := [16]byte{0xfd, 1: 0, 6: byte(n >> 8), 7: byte(n)}
	at := netip.AddrFrom16(b)
	return netstate.Route{Dst: netip.PrefixFrom(at, 64), Via: at, Link: "tulle.1", OnLink: true}
}

// direct returns the route to a peer on the host's own link.
func direct(n int) netstate.Route {
	return netstate.Route{Dst: subnet(n), Via: number(192<<24|2<<8, n), Link: "eth0"}
}

// peer returns what the nth vxlan peer needs.
func peer(n int) []netstate.Object { return []netstate.Object{neigh(n), fdb(n), route(n)} }

// name returns the nth peer's name as an owner.
func name(n int) string { return fmt.Sprintf("peer-%d", n) }

// setPeers sets the peers from first to last in one update.
func (l *lab) setPeers(first, last int) {
	l.r.Update(func(d *Desired) {
		for n := first; n <= last; n++ {
			d.Set(name(n), peer(n))
		}
	})
}

// spreadOf returns r with its metric in a large network.
func spreadOf(r netstate.Route) netstate.Route {
	r.Metric = netstate.SpreadMetric(r.Dst)
	return r
}

// shape returns objects with their IPv4 routes on the metrics of a large network,
// or of a small one.
func shape(large bool, objects []netstate.Object) []netstate.Object {
	out := slices.Clone(objects)
	for i, o := range out {
		if r, ok := o.(netstate.Route); ok && r.Dst.Addr().Is4() && r.Protocol == 0 {
			if out[i] = spreadOf(r); !large {
				r.Metric = 0
				out[i] = r
			}
		}
	}
	return out
}

// reshape moves the routes of all owners to other metrics, the first owners first.
func reshape(d *Desired, large bool) {
	for _, owner := range owners(d) {
		d.Set(owner, shape(large, d.wants(owner)))
	}
}

// owners returns all that want something, sorted.
func owners(d *Desired) []string {
	all := slices.Collect(maps.Keys(d.waits))
	for o := range d.state.All() {
		all = append(all, d.state.Owner(o.Key()))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// foreign returns r as another program's.
func foreign(r netstate.Route, protocol uint8) netstate.Route {
	r.Protocol = protocol
	return r
}

// ops records every op that the Fake gets, as "verb key".
func (l *lab) ops() func() string {
	var mu sync.Mutex
	var list []string
	l.f.SetHooks(kerneltest.Hooks{AfterOp: func(op netstate.Op, _ error) {
		mu.Lock()
		defer mu.Unlock()
		list = append(list, op.Verb.String()+" "+op.Object.Key().String())
	}})
	return func() string {
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		all := strings.Join(list, ", ")
		list = nil
		return all
	}
}
