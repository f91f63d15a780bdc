//go:build vm

package network

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tulle-net/tulle/backend"
	"github.com/tulle-net/tulle/backend/wireguard"
	"github.com/tulle-net/tulle/pkg/budget"
	"github.com/tulle-net/tulle/pkg/firewall"
	"github.com/tulle-net/tulle/pkg/firewall/nft"
	"github.com/tulle-net/tulle/pkg/hostif"
	"github.com/tulle-net/tulle/pkg/kernel"
	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/pkg/wgkey"
	"github.com/tulle-net/tulle/subnet"
	"github.com/tulle-net/tulle/subnet/storetest"
)

// cluster is hosts in namespaces on one link, each with a whole agent on the real kernel
// and a firewall. They share a store.
type cluster struct {
	t     *testing.T
	link  *kerneltest.NS
	store *storetest.Memory
	host  []*whole
}

// whole is one of those hosts.
type whole struct {
	t      *testing.T
	number int
	store  *storetest.Memory
	ns     *kerneltest.NS
	keys   string        // the key file
	legacy string        // flannel's key file
	hold   chan struct{} // until it is closed, the firewall is not written; nil for no wait
	first  *firstApply
	agent  *Agent
	end    func()
}

func newCluster(t *testing.T, config string, hosts int) *cluster {
	c := &cluster{t: t, link: newSwitch(t), store: storetest.NewMemory(config)}
	for i := range hosts {
		dir := t.TempDir()
		w := &whole{
			t: t, number: i + 1, store: c.store, ns: kerneltest.NewNS(t, fmt.Sprintf("whole%d", i+1)),
			keys: wgkey.Path(filepath.Join(dir, "state")), legacy: filepath.Join(dir, "wgkey"),
		}
		plug(t, c.link, w.ns, "eth0", fmt.Sprintf("198.18.0.%d/24", w.number), fmt.Sprintf("fd00:18::%d/64 nodad", w.number))
		w.ns.IP(t, "route add default via 198.18.0.254")
		w.ns.IP(t, "-6 route add default via fd00:18::fe")
		w.ns.IP(t, "link add cni0 type bridge")
		w.ns.IP(t, "link set cni0 up")
		c.host = append(c.host, w)
	}
	return c
}

// start runs the agent until stop.
func (w *whole) start() {
	w.t.Helper()
	k, err := kernel.New(w.ns.Path)
	if err != nil {
		w.t.Fatal(err)
	}
	ring := wgkey.NewStore(filepath.Dir(w.keys), "", "", w.legacy)
	k.UseSecrets(ring)
	all := map[string]backend.Factory{wireguard.Type: wireguard.New}
	for name, f := range factories {
		all[name] = f
	}
	id := fmt.Sprintf("machine-%d", w.number)
	rules := nft.NAT{Tables: nft.Open(w.ns.Path)}
	keeper := firewall.NewKeeper(func(context.Context, subnet.Choice) ([]firewall.Part, error) {
		return []firewall.Part{{Name: "own", Engine: slowEngine{rules, w.hold}, Wants: func(r firewall.Rules) firewall.Rules { return r }, Watch: rules.Watch, Dropped: rules.Dropped}}, nil
	}, budget.New().Firewall(), func() {})
	w.first = &firstApply{Kernel: k}
	w.agent = New(Options{
		Store: w.store, Kernel: w.first, Healing: budget.New().Kernel(), Backends: all, Files: &fakeFiles{},
		Outputs: Outputs{SubnetFile: "/nowhere/subnet.env", Network: "/test"}, Firewall: keeper, Rules: firewall.Rules{Forward: true},
		Node: subnet.Node{ID: id, Name: id, Instance: id}, Uplinks: hostif.Spec{Ifaces: []string{"eth0"}},
		Keys:     ring,
		Sessions: k.Sessions,
		AddPSK:   func(text string) error { _, err := ring.AddPSK(text); return err },
	})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { w.agent.Run(ctx) })
	w.end = sync.OnceFunc(func() { cancel(); running.Wait(); k.Close() })
	w.t.Cleanup(w.end)
}

// ready waits until the host is in sync with so many peers, and gives its bridge the
// first addresses of its subnets.
func (w *whole) ready(peers int) {
	w.t.Helper()
	kerneltest.Eventually(w.t, slow, func() error {
		v := w.agent.View(context.Background())
		if !v.Checks().Ready() || v.Peers.Count != peers || !v.Kernel.InSync || v.Firewall.Err != nil {
			return fmt.Errorf("node %d: %s; %v", w.number, v.Line(), v.Firewall.Err)
		}
		return nil
	})
	for _, s := range w.own().Subnets {
		if at := s.Addr().Next(); s.IsValid() && !strings.Contains(w.ns.IP(w.t, "addr show dev cni0"), at.String()+"/") {
			w.ns.IP(w.t, fmt.Sprintf("addr add %s/%d dev cni0", at, s.Bits()))
		}
	}
}

func (w *whole) own() subnet.Lease {
	w.t.Helper()
	for _, l := range w.store.Leases() {
		if l.Node.ID == fmt.Sprintf("machine-%d", w.number) {
			return l
		}
	}
	w.t.Fatalf("node %d has no lease", w.number)
	return subnet.Lease{}
}

func (w *whole) pod(f subnet.Family) netip.Addr { return w.own().Subnets[f].Addr().Next() }

func (c *cluster) start() {
	c.t.Helper()
	for _, w := range c.host {
		w.start()
	}
	for _, w := range c.host {
		w.ready(len(c.host) - 1)
	}
}

// marker is in the payload of all pings.
const marker = "tulle wg marker!"

// ping sends a marked ping, and reports whether it was answered.
func (w *whole) ping(to netip.Addr, more ...string) bool {
	args := append([]string{"ping", "-n", "-c1", "-W2", "-p", hex.EncodeToString([]byte(marker)), "-s", "200"}, more...)
	return w.ns.Command(append(args, to.String())...).Run() == nil
}

// pingAll pings from every host, and from its pod address, to every pod address.
func (c *cluster) pingAll() {
	c.t.Helper()
	for _, a := range c.host {
		for _, b := range c.host {
			for f, s := range a.own().Subnets {
				if a == b || !s.IsValid() {
					continue
				}
				for _, from := range [][]string{nil, {"-I", a.pod(subnet.Family(f)).String()}} {
					kerneltest.Eventually(c.t, slow, func() error {
						if !a.ping(b.pod(subnet.Family(f)), from...) {
							return fmt.Errorf("node %d does not reach %s from %q", a.number, b.pod(subnet.Family(f)), from)
						}
						return nil
					})
				}
			}
		}
	}
}

// publicKey returns the key that a host publishes.
func (w *whole) publicKey() string {
	for _, data := range w.own().BackendData {
		if _, rest, ok := strings.Cut(data, `"PublicKey":"`); ok {
			return rest[:44]
		}
	}
	w.t.Fatalf("node %d publishes no key", w.number)
	return ""
}

// peersOf returns the keys of the peers that a host's kernel has.
func (w *whole) peersOf(device string) (keys []string) {
	w.t.Helper()
	k, err := kernel.New(w.ns.Path)
	if err != nil {
		w.t.Fatal(err)
	}
	defer k.Close()
	all, err := k.Dump(context.Background(), netstate.Scope{Links: []string{device}})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, o := range all {
		if p, ok := o.(netstate.WGPeer); ok && p.Link == device {
			keys = append(keys, p.Peer.String())
		}
	}
	slices.Sort(keys)
	return keys
}

// TestWireGuardNodes runs three hosts in each mode, and looks at the wire.
func TestWireGuardNodes(t *testing.T) {
	for name, config := range map[string]string{
		"separate":       `{` + dual + `, "Backend": {"Type": "wireguard"}}`,
		"auto with PSK":  `{` + dual + `, "Backend": {"Type": "wireguard", "Mode": "auto", "PSK": "AQIDAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", "PersistentKeepaliveInterval": 5}}`,
		"IPv6 alone":     `{` + v6 + `, "Backend": {"Type": "wireguard"}}`,
		"IPv4 over IPv6": `{` + dual + `, "Backend": {"Type": "wireguard", "Mode": "ipv6"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, config, 3)
			var wires []*wire
			for _, w := range c.host {
				wires = append(wires, w.capture())
			}
			c.start()
			c.pingAll()
			for i, w := range wires {
				w.wantNoPlain(t, fmt.Sprintf("node %d", i+1))
				if _, tunnel := w.counts(); tunnel == 0 {
					t.Errorf("node %d sent nothing through the tunnel", i+1)
				}
			}
		})
	}
}

// TestWireGuardFailsClosed takes away, one after another, what leads packets into the
// tunnel, and gives them other ways.
func TestWireGuardFailsClosed(t *testing.T) {
	c := newCluster(t, config(v4, `{"Type": "wireguard"}`), 2)
	a, b := c.host[0], c.host[1]
	wire := a.capture()
	c.start()
	c.pingAll()
	to := b.pod(subnet.IPv4)

	// The lease of a node whose key is missing, to which a route of another program leads.
	c.store.Write("10.5.77.0-24", `{"PublicIP":"198.18.0.77","BackendType":"wireguard"}`)
	a.ns.IP(t, "route add 10.5.77.0/24 via 198.18.0.2 dev eth0")
	if a.ping(netip.MustParseAddr("10.5.77.2")) {
		t.Error("an answer without a key")
	}
	wire.wantNoPlain(t, "a peer without a key")

	// Another program's more specific route.
	a.ns.IP(t, "route add "+to.String()+"/32 via 198.18.0.2 dev eth0")
	if a.ping(to) {
		t.Error("an answer past the tunnel")
	}
	wire.wantNoPlain(t, "a foreign route")

	// Without Strict it is used: so the test would see what leaves in the clear.
	before := wire.readable()
	c.store.SetConfig(config(v4, `{"Type": "wireguard", "Strict": false}`))
	kerneltest.Eventually(t, slow, func() error {
		if a.ping(to); wire.readable() == before {
			return errors.New("nothing leaves in the clear although the config allows it")
		}
		return nil
	})
	c.store.SetConfig(config(v4, `{"Type": "wireguard"}`))
	kerneltest.Eventually(t, slow, func() error {
		before := wire.readable()
		if a.ping(to); wire.readable() > before {
			return errors.New("packets still leave in the clear")
		}
		return nil
	})
	wire.forget()
	a.ns.IP(t, "route del "+to.String()+"/32")

	// Nothing restores what is missing now.
	a.end()
	b.end()
	a.ns.IP(t, "route del "+b.own().Subnets[subnet.IPv4].String())
	if a.ping(to) {
		t.Error("an answer without a route")
	}
	wire.wantNoPlain(t, "no daemon and no route")
	a.ns.IP(t, "link del tulle-wg")
	if a.ping(to) {
		t.Error("an answer without a device")
	}
	wire.wantNoPlain(t, "no daemon and no device")
	a.start()
	b.start()
	kerneltest.Eventually(t, slow, func() error {
		if !a.ping(to) {
			return fmt.Errorf("no answer after the restart: %s", a.agent.View(context.Background()).Line())
		}
		return nil
	})
	wire.wantNoPlain(t, "a restart")
}

// TestWireGuardKeepsAndChangesKeys restarts a host with its key, and then without.
func TestWireGuardKeepsAndChangesKeys(t *testing.T) {
	c := newCluster(t, config(v4, `{"Type": "wireguard"}`), 2)
	a, b := c.host[0], c.host[1]
	wire := b.capture()
	c.start()
	c.pingAll()
	before := a.publicKey()
	if got := b.peersOf("tulle-wg"); !slices.Equal(got, []string{before}) {
		t.Errorf("B has the peers %q", got)
	}
	counts := flood(t, b.ns, b.pod(subnet.IPv4).String(), a.pod(subnet.IPv4).String())
	a.end()
	a.start()
	a.ready(1)
	if sent, lost := counts(); lost != 0 || sent < 500 {
		t.Errorf("the restart lost %d of %d pings", lost, sent)
	}
	if after := a.publicKey(); after != before {
		t.Errorf("the key was %s and is %s", before, after)
	}
	a.end()
	if err := os.Remove(a.keys); err != nil {
		t.Fatal(err)
	}
	a.start()
	a.ready(1)
	after := a.publicKey()
	kerneltest.Eventually(t, slow, func() error {
		if got := b.peersOf("tulle-wg"); after == before || !slices.Equal(got, []string{after}) {
			return fmt.Errorf("B has the peers %q; the key was %s and is %s", got, before, after)
		}
		return nil
	})
	c.pingAll()
	wire.wantNoPlain(t, "B")
}

// TestWireGuardTakesOverFromFlannel starts on a host as flannel leaves it, under a flood
// of pings.
func TestWireGuardTakesOverFromFlannel(t *testing.T) {
	c := newCluster(t, config(v4, `{"Type": "wireguard"}`), 2)
	a, b := c.host[0], c.host[1]
	b.start()
	b.ready(0)
	key := "QAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAEA="
	writeFile(t, a.legacy, key+"\n")
	private, err := wgkey.ParsePrivate(key)
	if err != nil {
		t.Fatal(err)
	}
	ring := &wgkey.Ring{}
	public := ring.Add(private)
	k, err := kernel.New(a.ns.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	k.UseSecrets(ring)
	peer, err := netstate.ParsePublicKey(b.publicKey())
	if err != nil {
		t.Fatal(err)
	}
	device := "flannel-wg"
	var p netstate.Planner
	for _, o := range []netstate.Object{
		netstate.Link{Name: device, Kind: netstate.TunnelWireGuard, MTU: 1420, Up: true, WireGuard: netstate.WireGuard{Key: public, Port: 51820}},
		netstate.WGPeer{Link: device, Peer: peer, Endpoint: netip.MustParseAddrPort("198.18.0.2:51820")},
		netstate.WGAllowed{Link: device, Peer: peer, Prefix: b.own().Subnets[subnet.IPv4]},
	} {
		p.Add(netstate.Create, o)
	}
	if err := k.Apply(context.Background(), p.Plan()); err != nil {
		t.Fatal(err)
	}
	c.store.Write("10.5.66.0-24", `{"PublicIP":"198.18.0.1","BackendType":"wireguard","BackendData":{"PublicKey":"`+public.String()+`","Port":51820}}`)
	a.ns.IP(t, "addr add 10.5.66.0/32 dev "+device)
	a.ns.IP(t, "addr add 10.5.66.1/24 dev cni0")
	a.ns.IP(t, "route add 10.5.0.0/16 dev "+device)
	b.ready(1)
	pod := netip.MustParseAddr("10.5.66.1")
	kerneltest.Eventually(t, slow, func() error {
		if !b.ping(pod, "-I", b.pod(subnet.IPv4).String()) {
			return fmt.Errorf("B does not reach flannel's node")
		}
		return nil
	})
	wire := a.capture()
	counts := flood(t, b.ns, b.pod(subnet.IPv4).String(), pod.String())
	a.start()
	a.ready(1)
	if sent, lost := counts(); lost != 0 || sent < 500 {
		t.Errorf("the takeover lost %d of %d pings", lost, sent)
	}
	if got := a.own(); got.Subnets[subnet.IPv4] != netip.MustParsePrefix("10.5.66.0/24") || a.publicKey() != public.String() {
		t.Errorf("A has %s and the key %s", got.Key(), a.publicKey())
	}
	kerneltest.Eventually(t, slow, func() error {
		out := a.ns.IP(t, "route show")
		if strings.Contains(out, "10.5.0.0/16 dev") || !strings.Contains(out, b.own().Subnets[subnet.IPv4].String()+" dev "+device+" proto 84") {
			return fmt.Errorf("the routes are\n%s", out)
		}
		return nil
	})
	if out := a.ns.IP(t, "link show type wireguard"); strings.Contains(out, "tulle") || !strings.Contains(out, "group 84") {
		t.Errorf("the devices are\n%s", out)
	}
	c.pingAll()
	wire.wantNoPlain(t, "A")
}

// TestWireGuardAfterVXLAN moves hosts, one after the other. From the moment that one is
// ready, nothing of its containers is readable, and at the end nothing of vxlan is left.
func TestWireGuardAfterVXLAN(t *testing.T) {
	c := newCluster(t, config(v4, `{"Type": "vxlan"}`), 2)
	a, b := c.host[0], c.host[1]
	c.start()
	c.pingAll()
	before := a.capture()
	if !a.ping(b.pod(subnet.IPv4)) {
		t.Error("no answer through vxlan")
	}
	kerneltest.Eventually(t, slow, func() error {
		if plain, _ := before.counts(); plain == 0 {
			return fmt.Errorf("the capture does not see what vxlan carries")
		}
		return nil
	})
	a.end()
	b.end() // its kernel and its lease stay those of vxlan
	c.store.SetConfig(config(v4, `{"Type": "wireguard"}`))
	a.start()
	a.ready(0)
	wire := a.capture()
	for range 3 {
		if a.ping(b.pod(subnet.IPv4)) || a.ping(b.pod(subnet.IPv4), "-I", a.pod(subnet.IPv4).String()) {
			t.Error("an answer from a node of vxlan")
		}
	}
	wire.wantNoPlain(t, "A before B")
	b.start()
	for _, w := range c.host {
		w.ready(1)
	}
	c.pingAll()
	wire.wantNoPlain(t, "A after B")
	for _, w := range c.host {
		if out := w.ns.IP(t, "link show type vxlan"); out != "" {
			t.Errorf("node %d still has\n%s", w.number, out)
		}
	}
}
