//go:build vm

package kernel

import (
	"context"
	"net/netip"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/netstate"
)

// TestWireGuardOfTenThousandPeers programs them, dumps and reads their sessions, and
// adds and removes one more. It takes more than three seconds because the machine is
// emulated. VXLAN's objects for as many peers are the measure.
func TestWireGuardOfTenThousandPeers(t *testing.T) {
	const n = 10000
	_, k, key, _ := wgHost(t, n+2)
	at := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{198, 18, byte(i >> 8), byte(i)}) }
	subnet := func(i int) netip.Prefix {
		return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 0}), 24)
	}
	route := func(i int, link string, gateway netip.Addr) netstate.Route {
		return netstate.Route{Dst: subnet(i), Link: link, Via: gateway, OnLink: gateway.IsValid(), Metric: netstate.SpreadMetric(subnet(i))}
	}
	encrypted := func(i int) []netstate.Object {
		return []netstate.Object{
			netstate.WGPeer{Link: "tulle-wg", Peer: key[i], Endpoint: netip.AddrPortFrom(at(i), 51820)},
			netstate.WGAllowed{Link: "tulle-wg", Prefix: subnet(i), Peer: key[i]},
			route(i, "tulle-wg", netip.Addr{}),
		}
	}
	link := wgLink("tulle-wg", key[1], 51820)
	all := netstate.Of(link)
	for i := 2; i <= n+1; i++ {
		for _, o := range encrypted(i) {
			all.Put(o)
		}
	}
	settle(t, k, netstate.Of(link))
	kernelMemory, memory := slab(t), heap()
	took := func(f func()) time.Duration {
		began := time.Now()
		f()
		return time.Since(began)
	}
	plan := netstate.Diff(all, dump(t, k, all))
	programmed := took(func() { apply(t, k, plan) })
	t.Logf("%d steps for %d peers: %s, %d bytes of kernel memory a peer", len(plan), n, programmed, (slab(t)-kernelMemory)/n)
	var held []netstate.Object
	t.Logf("a dump: %s", took(func() { held = dump(t, k, all) }))
	if again := netstate.Diff(all, held); len(again) > 0 {
		t.Errorf("a second diff has %d steps, first %v", len(again), again[0])
	}
	t.Logf("%d bytes of this process a peer, with the dump", (heap()-memory)/n)
	t.Logf("the sessions: %s", took(func() {
		if s, err := k.Sessions(context.Background(), []string{"tulle-wg"}); err != nil || len(s.Peers) != n {
			t.Errorf("%d sessions, %v", len(s.Peers), err)
		}
	}))
	var more, less netstate.Planner
	for _, o := range encrypted(n + 2) {
		more.Add(netstate.Create, o)
		less.Add(netstate.Delete, o)
	}
	t.Logf("one more peer: %s", took(func() { apply(t, k, more.Plan()) }))
	t.Logf("one less: %s", took(func() { apply(t, k, less.Plan()) }))
	settle(t, k, netstate.Of(link))
	runtime.KeepAlive(held)

	// As many peers of VXLAN.
	vx := link10k()
	tunnels := netstate.Of(vx)
	for i := 2; i <= n+1; i++ {
		mac := netstate.MAC{2, 0, 0, 0, byte(i >> 8), byte(i)}
		tunnels.Put(netstate.Neigh{Link: vx.Name, IP: subnet(i).Addr(), MAC: mac})
		tunnels.Put(netstate.FDB{Link: vx.Name, MAC: mac, Dst: at(i)})
		tunnels.Put(route(i, vx.Name, subnet(i).Addr()))
	}
	settle(t, k, netstate.Of(vx))
	plan = netstate.Diff(tunnels, dump(t, k, tunnels))
	vxlan := took(func() { apply(t, k, plan) })
	t.Logf("%d steps of vxlan: %s; wireguard takes %.1f times that", len(plan), vxlan, programmed.Seconds()/vxlan.Seconds())
}

// link10k is a device of VXLAN.
func link10k() netstate.Link {
	return netstate.Link{
		Name: "tulle.1", Kind: netstate.TunnelVXLAN, MTU: 1450, Group: netstate.Mark, Up: true, MAC: netstate.MAC{2, 0, 0, 0, 0, 1},
		Local: netip.MustParseAddr("198.18.0.1"), VXLAN: netstate.VXLAN{VNI: 1, Port: 8472},
	}
}

// heap returns the bytes that the process needs.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// slab returns the bytes of the kernel's objects.
func slab(t *testing.T) uint64 {
	t.Helper()
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^Slab: +(\d+) kB`).FindSubmatch(text)
	if m == nil {
		t.Fatalf("no Slab in %s", text)
	}
	kilobytes, err := strconv.ParseUint(string(m[1]), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return kilobytes << 10
}
