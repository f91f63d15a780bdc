package e2e

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/kernel"
	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/pkg/test/clustertest"
	"github.com/tulle-net/tulle/subnet"
)

// disturbed is two nodes and a host outside the network. A disturber changes something
// on the first node repeatedly. As with Docker, the chain FORWARD of the first node
// drops packets that no rule accepts.
type disturbed struct {
	*filtered
	daemon *clustertest.Daemon
	kernel *kernel.Kernel
	nft    *nftShell // of the first node
}

const dockerLike = "add table ip filter; add chain ip filter FORWARD { type filter hook forward priority 0; policy drop; }"

// newDisturbed runs a program on both nodes.
func newDisturbed(t *testing.T, program clustertest.Command) *disturbed {
	t.Helper()
	w := newWorld(t, 3, 1, vxlan)
	d := &disturbed{filtered: &filtered{world: w, here: w.Hosts[0], there: w.Hosts[1], outside: w.Hosts[2]}}
	w.nft(d.here, dockerLike)
	for _, h := range w.Hosts[:2] {
		w.daemons[h] = h.Start(program, w.flags(h, "--ip-masq", "--filter=nftables")...)
	}
	d.daemon = w.daemons[d.here]
	d.pod, d.peer = d.here.AddPod(), d.there.AddPod()
	w.Reach(d.pod, d.peer)
	echo(t, d.outside.NS.Path, echoPort)
	d.open()
	return d
}

// open opens the first node's kernel for the disturber.
func (d *disturbed) open() {
	var err error
	if d.kernel, err = kernel.New(d.here.NS.Path); err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(d.kernel.Close)
	d.nft = newNFTShell(d.t, d.here)
}

// held returns the object on the first node that matches. It must exist.
func (d *disturbed) held(match func(netstate.Object) bool) netstate.Object {
	d.t.Helper()
	var found netstate.Object
	d.eventually(func() error {
		objects, err := d.kernel.Dump(context.Background(), netstate.Scope{})
		if err != nil {
			return err
		}
		for _, o := range objects {
			if match(o) {
				found = o
				return nil
			}
		}
		return fmt.Errorf("no such object: %v", objects)
	})
	return found
}

// apply changes the first node's kernel. It ignores changes of objects that do not
// exist.
func (d *disturbed) apply(v netstate.Verb, o netstate.Object) {
	_ = d.kernel.Apply(context.Background(), netstate.Plan{{Verb: v, Object: o}})
}

// deleting returns a function that deletes the existing object of a kind.
func (d *disturbed) deleting(kind netstate.Kind) func() {
	o := d.held(func(o netstate.Object) bool {
		a, isAddr := o.(netstate.Addr)
		return o.Key().Kind == kind && (!isAddr || a.Prefix.Addr().Is4())
	})
	return func() { d.apply(netstate.Delete, o) }
}

// disturbance is a change that another program makes repeatedly.
type disturbance struct {
	name string
	kind string                  // of the object, as the fight is reported
	make func(*disturbed) func() // returns a function that makes the change once
	// watch starts a measurement of how much of the time something does not work. It
	// takes a sample at each interval.
	watch func(*disturbed, time.Duration) meter
}

func disturbances() []disturbance {
	link := func(o netstate.Object) bool { return o.Key().Kind == netstate.KindLink }
	return []disturbance{
		{"route deleted", "route", func(d *disturbed) func() { return d.deleting(netstate.KindRoute) }, (*disturbed).pinged},
		{"route replaced", "route", func(d *disturbed) func() {
			theirs := d.held(func(o netstate.Object) bool { return o.Key().Kind == netstate.KindRoute }).(netstate.Route)
			theirs = netstate.Route{Dst: theirs.Dst, Metric: theirs.Metric, Drop: true, Protocol: 4}
			return func() { d.apply(netstate.Replace, theirs) }
		}, (*disturbed).pinged},
		{"neighbour deleted", "neigh", func(d *disturbed) func() { return d.deleting(netstate.KindNeigh) }, (*disturbed).pinged},
		{"FDB entry deleted", "fdb", func(d *disturbed) func() { return d.deleting(netstate.KindFDB) }, (*disturbed).pinged},
		{"address deleted", "addr", func(d *disturbed) func() { return d.deleting(netstate.KindAddr) }, (*disturbed).pinged},
		{"forwarding off", "sysctl", func(d *disturbed) func() {
			off := netstate.Sysctl{Path: "net/ipv4/conf/all/forwarding", Value: "0"}
			return func() { d.apply(netstate.Replace, off) }
		}, (*disturbed).pinged},
		{"device down", "link", func(d *disturbed) func() {
			l := d.held(link).(netstate.Link)
			l.Up = false
			return func() { d.apply(netstate.Replace, l) }
		}, (*disturbed).pinged},
		{"device deleted", "link", func(d *disturbed) func() { return d.deleting(netstate.KindLink) }, (*disturbed).pinged},
		{"nft table deleted", "masquerade", func(d *disturbed) func() { return d.nfting("delete table inet tulle") }, (*disturbed).flows},
		{"accept rules deleted", "forward", func(d *disturbed) func() { return d.nfting("flush chain ip filter FORWARD") }, (*disturbed).pinged},
		{"env file deleted", "subnet.env", func(d *disturbed) func() {
			return func() { _ = os.Remove(d.here.SubnetFile) }
		}, (*disturbed).file},
	}
}

// nfting returns a function that runs a command of nft, and ignores its failures.
func (d *disturbed) nfting(command string) func() {
	return func() {
		if err := d.nft.run(command); err != nil {
			d.t.Error(err)
		}
	}
}

// meter ends a measurement. It returns the share of time that was lost, and the longest
// time in a row.
type meter func() (lost float64, longest time.Duration)

// pinged measures pings between the pods.
func (d *disturbed) pinged(every time.Duration) meter {
	s := d.PingEvery(d.pod, d.peer, subnet.IPv4, every)
	return func() (float64, time.Duration) {
		r := s.Stop()
		return float64(r.Lost) / float64(r.Sent), r.LongestGap()
	}
}

// flows measures new connections from the pod to the host outside, which must be
// masqueraded.
func (d *disturbed) flows(every time.Duration) meter {
	to := netip.AddrPortFrom(d.outside.Addr[subnet.IPv4], echoPort)
	return d.sampled(5*every, func() bool { return asked(d.pod.NS.Path, to) == nil })
}

// file measures for which share of the time the env file is correct.
func (d *disturbed) file(every time.Duration) meter {
	var right []byte
	d.eventually(func() (err error) { // the disturber may just have deleted it
		right, err = os.ReadFile(d.here.SubnetFile)
		return err
	})
	return d.sampled(every, func() bool {
		is, err := os.ReadFile(d.here.SubnetFile)
		return err == nil && string(is) == string(right)
	})
}

// sampled measures for which share of the time a condition holds. Samples do not wait
// for one another.
func (d *disturbed) sampled(every time.Duration, so func() bool) meter {
	var mu sync.Mutex
	var all []bool
	var wg sync.WaitGroup
	quit := make(chan struct{})
	wg.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-quit:
				return
			case <-tick.C:
			}
			mu.Lock()
			i := len(all)
			all = append(all, false)
			mu.Unlock()
			wg.Go(func() {
				is := so()
				mu.Lock()
				defer mu.Unlock()
				all[i] = is
			})
		}
	})
	return func() (lost float64, longest time.Duration) {
		close(quit)
		wg.Wait()
		row := 0
		for _, is := range all {
			if row++; is {
				row = 0
			} else {
				lost++
			}
			longest = max(longest, time.Duration(row)*every)
		}
		return lost / float64(len(all)), longest
	}
}

// disturb calls f at an interval until stop is called, which returns the number of
// calls.
func disturb(every time.Duration, do func()) (stop func() int) {
	n, quit, done := 0, make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			do()
			n++
			select {
			case <-quit:
				return
			case <-tick.C:
			}
		}
	}()
	return func() int {
		close(quit)
		<-done
		return n
	}
}

// right waits until the first node is restored, including the firewall's rules and the
// env file. It returns how long that took.
func (d *disturbed) right(before string) time.Duration {
	d.t.Helper()
	begin := time.Now()
	d.eventually(func() error {
		if is := d.whole(); is != before {
			return fmt.Errorf("not as it was:\n%s\nbut:\n%s", before, is)
		}
		return nil
	})
	return time.Since(begin)
}

// whole returns the text of everything on the first node that is disturbed.
func (d *disturbed) whole() string {
	d.t.Helper()
	rules, err := d.here.NS.Command("nft", "-s", "list", "ruleset").CombinedOutput()
	if err != nil {
		d.t.Fatalf("%v: %s", err, rules)
	}
	file, err := os.ReadFile(d.here.SubnetFile)
	if err != nil {
		file = []byte(err.Error())
	}
	return d.here.Kernel() + strings.TrimSpace(string(rules)) + "\n" + string(file) + d.here.NS.Setting(d.t, "net/ipv4/conf/all/forwarding")
}
