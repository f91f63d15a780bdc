package reconcile

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/budget"
	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/netstate"
)

// TestRandomFaultsEndInSync lets owners change their wishes, other programs tamper,
// and the kernel refuse, forget and hang, all at random. When they stop, the kernel
// is in sync, nothing foreign was touched, and the loop holds no state of the past.
func TestRandomFaultsEndInSync(t *testing.T) {
	seeds := uint64(100)
	if testing.Short() {
		seeds = 5
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { soak(t, seed) })
	}
}

func soak(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 1))
	strangers := []netstate.Object{
		eth0, netstate.Addr{Link: "eth0", Prefix: pfx("192.0.2.1/24")}, netstate.Neigh{Link: "eth0", IP: ip("192.0.2.2"), MAC: hw(1)},
		foreign(direct(1000), 4), foreign(direct(1001), netstate.ProtocolBoot),
	}
	// A link that goes down takes even permanent neighbours and routes with it, so only
	// links of ours do that here.
	run(t, kerneltest.NewFake(append(strangers, neigh(5), route(6))...), func(l *lab) {
		l.set("host", host()...)
		for range 300 {
			if rng.IntN(3) == 0 {
				l.want(rng)
			} else if rng.IntN(2) == 0 {
				l.tamper(rng)
			} else {
				l.breakDown(rng)
			}
			switch rng.IntN(4) {
			case 0:
				l.wait(time.Duration(rng.IntN(300)) * time.Millisecond)
			case 1:
				l.wait(time.Duration(rng.IntN(20)) * time.Second)
			}
		}
		l.complete()
		l.f.Heal()
		for n := range 20 { // what was there before ours would stay
			for _, r := range []netstate.Route{direct(n), spreadOf(direct(n))} {
				if l.f.Has(foreign(r, 4)) {
					l.f.Delete(r.Key())
				}
			}
		}
		l.f.Overrun(1) // a periodic resync would find what was lost without an event
		l.f.Put(netstate.Neigh{Link: "eth0", IP: ip("192.0.2.9"), MAC: hw(9)})
		l.wait(2 * backoff.Last)
		l.synced()
		l.has(strangers...)

		l.r.Update(func(d *Desired) {
			for n := range 20 {
				d.Remove(name(n))
			}
			d.Remove("host")
		})
		l.wait(time.Second)
		l.r.Update(func(d *Desired) { d.Set("host", []netstate.Object{forward}) })
		l.wait(budget.Quiet + 2*interval)
		l.synced()
		l.r.mu.Lock()
		defer l.r.mu.Unlock()
		if q := &l.r.queue; !q.empty() || len(q.retries) > 0 || len(l.r.fights.All(time.Now())) > 0 || l.r.desired.state.Len() != 1 {
			l.Errorf("left over: %+v, fights %v", q, l.r.fights.All(time.Now()))
		}
	})
}

// want changes what an owner wants.
func (l *lab) want(rng *rand.Rand) {
	n := rng.IntN(20)
	switch rng.IntN(6) {
	case 0:
		l.remove(name(n))
	case 1:
		l.set(name(n), shape(l.large, []netstate.Object{direct(n)})...)
	case 2:
		l.set(name(n), shape(l.large, []netstate.Object{neigh(n), fdb(n), route(n), route6(n)})...)
	case 3:
		l.set(name(n), shape(l.large, []netstate.Object{neigh(n), fdb((n + 1) % 20), direct((n + 1) % 20)})...) // as if another owner's
	case 4:
		l.r.Update(func(d *Desired) { // as if the network had grown or shrunk past a bound
			l.large = !l.large
			reshape(d, l.large)
		})
	default:
		made := link
		made.MTU = 1400 + 10*rng.IntN(2)
		made.VXLAN.VNI = 1 + uint32(rng.IntN(10)/9)
		l.set("host", made, setting, forward, addr, addr6)
	}
}

// tamper changes something in the kernel.
func (l *lab) tamper(rng *rand.Rand) {
	n := rng.IntN(20)
	switch rng.IntN(14) {
	case 0:
		l.f.Delete(neigh(n).Key())
	case 1:
		l.f.Delete(fdb(n).Key())
	case 2:
		l.f.Delete(route(n).Key())
	case 3:
		l.f.Delete(spreadOf(route(n)).Key())
	case 4:
		l.f.Put(neigh(n)) // refused without a link
	case 5:
		l.f.Put(direct(n))
	case 6:
		l.f.Put(netstate.FDB{Link: "tulle.1", MAC: hw(n), Dst: ip("198.51.100.1")})
	case 7:
		l.f.DeleteLink("tulle.1")
	case 8:
		l.f.LinkDown("tulle.1")
	case 9:
		l.f.LinkUp("tulle.1")
	case 10:
		l.f.Delete(addr.Key())
	case 11:
		l.f.Put(foreign(direct(n), 4))
	case 12:
		l.f.Put(foreign(spreadOf(direct(n)), 4))
	default:
		l.f.Put(netstate.Sysctl{Path: setting.Path, Value: "1"})
	}
}

// breakDown makes the kernel fail in some way soon.
func (l *lab) breakDown(rng *rand.Rand) {
	n := 1 + rng.IntN(5)
	switch rng.IntN(9) {
	case 0:
		l.f.Fail(n, kerneltest.OfKind(netstate.Kinds()[rng.IntN(len(netstate.Kinds()))]), syscall.ENOMEM)
	case 1:
		l.f.Fail(n, kerneltest.OfVerb(netstate.Delete), syscall.EBUSY)
	case 2:
		l.f.FailDumps(n, errTest)
	case 3:
		l.f.AbortApply(n, syscall.ENOBUFS)
	case 4:
		l.f.Vanish(n, "tulle.1")
	case 5:
		l.f.LoseEvents(n)
	case 6:
		l.f.Overrun(n)
	case 7:
		l.f.FailWatch(n, errTest)
	default:
		release := l.f.BlockApply()
		time.AfterFunc(time.Duration(rng.IntN(3000))*time.Millisecond, release)
	}
}
