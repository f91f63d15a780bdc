package backend_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tulle-net/tulle/backend"
	"github.com/tulle-net/tulle/backend/alloc"
	"github.com/tulle-net/tulle/backend/cloud"
	"github.com/tulle-net/tulle/backend/extension"
	"github.com/tulle-net/tulle/backend/hostgw"
	"github.com/tulle-net/tulle/backend/ipip"
	"github.com/tulle-net/tulle/backend/udp"
	"github.com/tulle-net/tulle/backend/vxlan"
	"github.com/tulle-net/tulle/backend/wireguard"
	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/subnet"
)

// contender is a backend, by its folder, with configs for each of its behaviours.
type contender struct {
	folder  string
	factory backend.Factory
	configs []string
}

var contenders = []contender{
	{"alloc", alloc.New, []string{`{"Type": "alloc"}`}},
	{"cloud", cloud.New, []string{`{"Type": "cloud"}`, `{"Type": "cloud", "VNI": 42, "Port": 4789, "MTU": 1400, "Offload": "off"}`}},
	{"extension", extension.New, []string{
		`{"Type": "extension"}`,
		`{"Type": "extension", "PreStartupCommand": "cat /etc/machine-id", "PostStartupCommand": "ip link show", "SubnetAddCommand": "ip route replace \"$SUBNET\" via \"$PUBLIC_IP\"", "SubnetRemoveCommand": "ip route del \"$SUBNET\"", "CommandTimeout": 5, "MTU": 1400}`,
	}},
	{"hostgw", hostgw.New, []string{`{"Type": "host-gw"}`}},
	{"ipip", ipip.New, []string{`{"Type": "ipip"}`, `{"Type": "ipip", "DirectRouting": true}`, `{"Type": "ipip", "Offload": "off"}`}},
	{"udp", udp.New, []string{`{"Type": "udp"}`, `{"Type": "udp", "Port": 8286}`}},
	{"vxlan", vxlan.New, []string{
		`{"Type": "vxlan"}`,
		`{"Type": "vxlan", "DirectRouting": true}`,
		`{"Type": "vxlan", "VNI": 42, "Port": 4789, "GBP": true, "Learning": true, "MTU": 1400}`,
		`{"Type": "vxlan", "Offload": "on"}`,
	}},
	{"wireguard", wireguard.New, []string{
		`{"Type": "wireguard"}`,
		`{"Type": "wireguard", "Mode": "auto", "ListenPort": 51999, "MTU": 1400, "PersistentKeepaliveInterval": 25, "PSK": "AQIDAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="}`,
	}},
}

func TestEveryBackendContends(t *testing.T) {
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		known := slices.ContainsFunc(contenders, func(c contender) bool { return c.folder == e.Name() })
		shared := []string{"testdata", "backendtest", "move"}
		if e.IsDir() && !slices.Contains(shared, e.Name()) && !known {
			t.Errorf("the backend %s has no row in contenders", e.Name())
		}
	}
}

// hosts returns hosts of all kinds.
func hosts() map[string]backend.HostFacts {
	plain := plainHost()

	nat := plainHost()
	nat.Uplinks = uplinks(1500, addresses("198.18.0.1", "fd00:18::1"), addresses("192.0.2.1", "2001:db8::1"))

	for f, gateway := range addresses("198.18.0.100", "fe80::1") {
		nat.Uplinks[f].Gateway = gateway
	}

	busy := plainHost()
	busy.Checksums = backend.ChecksumsBroken
	busy.Uplinks[subnet.IPv6].TakesRouterAdvertisements = true
	busy.OnLink = append(busy.OnLink, onLink(
		"198.18.0.128/25 via 198.18.0.254 dev eth0", "172.17.0.0/16 dev docker0",
		"10.5.1.0/24 dev cni0", "fd00:5:0:1::/64 dev cni0", "198.18.9.4/31 dev eth1",
		"fd00:18::8000:0:0:0/65 via fd00:18::fe dev eth0",
	)...)

	flannel := plainHost()
	flannel.Tunnels = []netstate.Link{
		{Name: "flannel.1", Kind: "vxlan", MAC: netstate.MAC{0x3a, 4}, Local: flannel.Uplinks[0].Address, Lower: "eth0", VXLAN: netstate.VXLAN{VNI: 1, Port: 8472}},
		{Name: "flannel-v6.1", Kind: "vxlan", MAC: netstate.MAC{0x3a, 6}, Local: flannel.Uplinks[1].Address, Lower: "eth7", VXLAN: netstate.VXLAN{VNI: 1, Port: 8472}},
		{Name: "flannel.ipip", Kind: "ipip", Local: flannel.Uplinks[0].Address},
		{Name: "tunl0", Kind: "ipip"},
		{Name: "ip6tnl0", Kind: "ip6tnl"},
	}
	flannel.Published = subnet.Attrs{BackendType: "vxlan", BackendData: subnet.Pair[string]{`{"VNI":1,"VtepMAC":"3a:04:00:00:00:00"}`, `{"VNI":1,"VtepMAC":"3a:06:00:00:00:00"}`}}

	hosts := map[string]backend.HostFacts{"plain": plain, "NAT": nat, "busy": busy, "flannel": flannel}
	for kind, h := range hosts {
		h.WireGuardKeys, h.Prepare = hasKey(h.NodeID), prepared(h.NodeID)
		hosts[kind] = h
	}
	return hosts
}

// keyOf returns the WireGuard key of a node.
func keyOf(nodeID string) netstate.PublicKey {
	return netstate.PublicKeyOf(sha256.Sum256([]byte(nodeID)))
}

// hasKey returns what tells a backend the key of a node.
func hasKey(nodeID string) func() (backend.WireGuardKeys, error) {
	return func() (backend.WireGuardKeys, error) {
		return backend.WireGuardKeys{Device: keyOf(nodeID), Published: keyOf(nodeID)}, nil
	}
}

// prepared returns what tells a backend what PreStartupCommand printed on a node.
func prepared(nodeID string) func(string, time.Duration) (string, error) {
	return func(command string, _ time.Duration) (string, error) { return command + " on\n" + nodeID, nil }
}

// scene is one backend on one host in one network, and the node's own lease.
type scene struct {
	name    string
	factory backend.Factory
	cfg     subnet.Config
	host    backend.HostFacts
	backend backend.Backend
	own     subnet.Lease
}

// scenes returns all combinations of contenders, hosts and families.
func scenes(t testing.TB) []scene {
	t.Helper()
	var all []scene
	for _, c := range contenders {
		for _, config := range c.configs {
			for families, key := range map[string]string{v4: "10.5.1.0-24", v6: "fd00:5:0:1::-64", dual: "10.5.1.0-24&fd00:5:0:1::-64"} {
				for kind, host := range hosts() {
					s := scene{
						name:    fmt.Sprintf("%s of a %s host with %s", config, kind, key),
						factory: c.factory, cfg: parseConfig(t, families, config), host: host,
					}
					var err error
					if s.backend, err = c.factory(s.cfg, host); err != nil {
						t.Fatalf("%s: %v", s.name, err)
					}
					s.own = lease(t, key)
					s.own.Attrs = s.backend.Publish()
					s.own.Node.ID, s.own.Created = host.NodeID, 1
					all = append(all, s)
				}
			}
		}
	}
	return all
}

func (s scene) has(f subnet.Family) bool { return s.cfg.Pools[f].IsValid() }

// peers returns n nodes of the same network, each with a public IP of a kind.
func (s scene) peers(t testing.TB, n int, random *rand.Rand) []subnet.Lease {
	t.Helper()
	var out []subnet.Lease
	for i := range n {
		far := subnet.Pair[[]string]{
			{fmt.Sprintf("198.18.0.%d", i+2), fmt.Sprintf("198.18.0.%d", i+130), fmt.Sprintf("192.0.2.%d", i+2), fmt.Sprintf("172.17.5.%d", i+2)},
			{fmt.Sprintf("fd00:18::%d", i+2), fmt.Sprintf("fd00:18::8000:0:0:%x", i+2), fmt.Sprintf("2001:db8::%d", i+2)},
		}
		mtu := 1400 + random.IntN(200)
		var at subnet.Pair[netip.Addr]
		for f := range at {
			at[f] = netip.MustParseAddr(far[f][random.IntN(len(far[f]))])
		}
		h := backend.HostFacts{NodeID: fmt.Sprintf("machine-%d", i+2), Uplinks: uplinks(mtu, at, at)}
		h.WireGuardKeys, h.Prepare = hasKey(h.NodeID), prepared(h.NodeID)
		b, err := s.factory(s.cfg, h)
		if err != nil {
			t.Fatal(err)
		}
		peer := subnet.Lease{Attrs: b.Publish(), Created: int64(i + 2), Routed: subnet.Pair[bool]{i%2 == 0, i%3 == 0}}
		peer.Node.ID, peer.Node.Name = h.NodeID, h.NodeID
		if random.IntN(3) == 0 {
			peer.Node = subnet.Node{} // a flannel
		}
		for f, pool := range s.cfg.Pools {
			if pool.IsValid() {
				peer.Subnets[f] = pool.Subnet(uint64(i + 1))
			}
		}
		out = append(out, peer)
	}
	return out
}

// TestConformance checks what holds for every backend, on hosts of all kinds and in
// each family.
func TestConformance(t *testing.T) {
	for _, s := range scenes(t) {
		t.Run(s.name, func(t *testing.T) {
			random := rand.New(rand.NewPCG(1, 2))
			peers := s.peers(t, 40, random)
			s.checkPublish(t)
			s.checkHost(t)
			s.checkPure(t, peers)
			owner := map[netstate.Key]string{}
			claim := func(who string, objects []netstate.Object) {
				for _, o := range objects {
					if other, taken := owner[o.Key()]; taken {
						t.Errorf("%s has the key of %s and of %s", o, other, who)
					}
					owner[o.Key()] = who
				}
			}
			claim("the host", s.backend.Host(s.own))
			for _, p := range peers {
				objects, err := s.backend.Peer(s.own, p, backend.PlainMetrics)
				s.checkPeer(t, p, objects, err)
				if err != nil && !errors.Is(err, backend.ErrNotOnLink) {
					t.Errorf("a good peer %s: %v", p.Key(), err)
				}
				claim(p.Key(), objects)
			}
		})
	}
}

// checkPublish checks that a store can keep what the backend publishes, and that the
// result is an accepted peer.
func (s scene) checkPublish(t *testing.T) {
	t.Helper()
	text, err := subnet.FormatAttrs(s.own.Attrs)
	if err != nil {
		t.Fatal(err)
	}
	read, err := subnet.ParseAttrs(text)
	if err != nil || read != s.own.Attrs {
		t.Errorf("%s is read as %+v, %v; want %+v", text, read, err, s.own.Attrs)
	}
	if got := s.backend.Publish(); got.BackendType != s.cfg.Backend.Type || got.PublicIP != s.host.Attrs("", 0).PublicIP || got.Node.MTU != s.backend.MTU() {
		t.Errorf("it publishes %+v", got)
	}
	if mtu := s.backend.MTU(); mtu < 1280 || mtu > s.host.MTU() {
		t.Errorf("its MTU is %d", mtu)
	}
	other := s.peers(t, 1, rand.New(rand.NewPCG(3, 4)))[0]
	changes := subnet.NewTable(s.cfg, other).Apply(subnet.Update{Complete: true, Leases: []subnet.Lease{s.own}})
	if len(changes.Set) != 1 || len(changes.Rejected) != 0 {
		t.Errorf("others do not believe it: %v", changes.Rejected)
	}
}

// checkHost checks that there is at most one device per family, and nothing foreign
// except for settings that forwarding needs.
func (s scene) checkHost(t *testing.T) {
	t.Helper()
	objects := s.backend.Host(s.own)
	devices := map[string]bool{}
	for _, o := range objects {
		if l, ok := o.(netstate.Link); ok {
			devices[l.Name] = true
			if l.Group != netstate.Mark || !l.Up || l.MTU < s.backend.MTU() || l.Remote.IsValid() || len(l.Name) > 15 {
				t.Errorf("%s", l)
			}
		}
	}
	if len(devices) > len(s.families()) {
		t.Errorf("%d devices for %d families", len(devices), len(s.families()))
	}
	for _, o := range objects {
		switch o := o.(type) {
		case netstate.Link:
		case netstate.Route:
			f := subnet.FamilyOf(o.Dst.Addr())
			drops, answers := o.Drop && s.cfg.Backend.Type == wireguard.Type, devices[o.Link] && s.cfg.Backend.Type == udp.Type
			if o.Dst != s.cfg.Networks()[f] || !drops && !answers {
				t.Errorf("%s", o)
			}
		case netstate.Addr:
			f := subnet.FamilyOf(o.Prefix.Addr())
			if !devices[o.Link] || !o.Prefix.IsSingleIP() || o.Prefix.Addr() != s.own.Subnets[f].Addr() {
				t.Errorf("%s", o)
			}
		case netstate.Sysctl:
			on := netstate.LinkOf(o)
			if on == "" && !strings.HasSuffix(o.Path, "/conf/all/forwarding") ||
				on == "eth0" && o.Path != "net/ipv4/conf/eth0/forwarding" && (s.cfg.Backend.Type != cloud.Type || o.Path != "net/ipv4/conf/eth0/rp_filter") && (!strings.HasSuffix(o.Path, "/accept_ra") || !s.host.Uplinks[subnet.IPv6].TakesRouterAdvertisements) ||
				on != "" && on != "eth0" && !devices[on] {
				t.Errorf("%s", o)
			}
		case netstate.Command:
			if s.cfg.Backend.Type != extension.Type || o.Subnet.IsValid() || o.Run == "" || o.Undo != "" || o.Stdin != "" || o.Stale {
				t.Errorf("%s", o)
			}
		default:
			t.Errorf("what is for no peer holds %s", o)
		}
	}
}

func (s scene) families() []subnet.Family {
	return slices.DeleteFunc(slices.Clone(subnet.Families[:]), func(f subnet.Family) bool { return !s.has(f) })
}

// checkPure checks that the results depend on the arguments only, in any order of
// calls, and that no argument is changed.
func (s scene) checkPure(t *testing.T, peers []subnet.Lease) {
	t.Helper()
	host := s.host
	host.OnLink, host.Tunnels = slices.Clone(host.OnLink), slices.Clone(host.Tunnels)
	again, err := s.factory(s.cfg, host)
	if err != nil {
		t.Fatal(err)
	}
	type answer struct {
		objects []netstate.Object
		err     string
	}
	ask := func(b backend.Backend, p subnet.Lease) answer {
		objects, err := b.Peer(s.own, p, backend.PlainMetrics)
		return answer{objects, fmt.Sprint(err)}
	}
	first := map[string]answer{}
	for _, p := range peers {
		first[p.Key()] = ask(s.backend, p)
	}
	hosts := s.backend.Host(s.own)
	for _, p := range slices.Backward(peers) {
		for _, b := range []backend.Backend{s.backend, again} {
			if got := ask(b, p); !reflect.DeepEqual(got, first[p.Key()]) {
				t.Errorf("%s is %v at first and %v then", p.Key(), first[p.Key()], got)
			}
		}
	}
	if !reflect.DeepEqual(again.Host(s.own), hosts) || !reflect.DeepEqual(s.backend.Host(s.own), hosts) ||
		again.Publish() != s.backend.Publish() || again.MTU() != s.backend.MTU() {
		t.Error("another of the same says other things")
	}
	now := s.host
	host.WireGuardKeys, now.WireGuardKeys, host.Prepare, now.Prepare = nil, nil, nil, nil // functions cannot be compared
	if !reflect.DeepEqual(host, now) {
		t.Errorf("the host's facts are %+v now", host)
	}
}

// checkPeer checks what holds for every peer, however hostile.
func (s scene) checkPeer(t testing.TB, peer subnet.Lease, objects []netstate.Object, err error) {
	t.Helper()
	devices := map[string]bool{}
	for _, o := range s.backend.Host(s.own) {
		if l, ok := o.(netstate.Link); ok {
			devices[l.Name] = true
		}
	}
	var routes subnet.Pair[int]
	keys := map[netstate.Key]bool{}
	for _, o := range objects {
		if keys[o.Key()] {
			t.Errorf("%s comes twice", o)
		}
		keys[o.Key()] = true
		switch o := o.(type) {
		case netstate.Route:
			f := subnet.FamilyOf(o.Dst.Addr())
			routes[f]++
			s.checkRoute(t, peer, f, o, devices[o.Link])
		case netstate.Neigh:
			f := subnet.FamilyOf(o.IP)
			if !devices[o.Link] || o.IP != peer.Subnets[f].Addr() || o.MAC.IsZero() || o.MAC[0]&1 != 0 {
				t.Errorf("%s for %s", o, peer.Subnets)
			}
		case netstate.FDB:
			f := subnet.FamilyOf(o.Dst)
			if !devices[o.Link] || o.Dst != peer.PublicIP[f] || o.MAC.IsZero() || o.MAC[0]&1 != 0 {
				t.Errorf("%s for %s", o, peer.PublicIP)
			}
		case netstate.WGPeer:
			if !devices[o.Link] || o.Peer == keyOf(s.host.NodeID) || o.Peer.IsZero() || o.Endpoint.Port() == 0 || !slices.Contains(peer.PublicIP[:], o.Endpoint.Addr()) || o.Roamed {
				t.Errorf("%s for %s", o, peer.PublicIP)
			}
		case netstate.WGAllowed:
			if f := subnet.FamilyOf(o.Prefix.Addr()); !devices[o.Link] || o.Prefix != peer.Subnets[f] || !keys[netstate.WGPeer{Link: o.Link, Peer: o.Peer}.Key()] {
				t.Errorf("%s for %s", o, peer.Subnets)
			}
		case netstate.UDPPeer:
			if f := subnet.FamilyOf(o.Prefix.Addr()); !devices[o.Link] || o.Prefix != peer.Subnets[f] || o.Endpoint.Addr() != peer.PublicIP[f] || o.Endpoint.Port() == 0 {
				t.Errorf("%s for %s at %s", o, peer.Subnets, peer.PublicIP)
			}
		case netstate.Command:
			s.checkCommand(t, peer, o)
		default:
			t.Errorf("a peer has %s", o)
		}
	}
	for f, n := range routes {
		served := s.own.Subnets[f].IsValid() && peer.Subnets[f].IsValid()
		switch {
		case n > 1 || n > 0 && !served:
			t.Errorf("%d routes for %s", n, subnet.Family(f))
		case n == 0 && served && err == nil && s.cfg.Backend.Type != alloc.Type && s.cfg.Backend.Type != extension.Type:
			t.Errorf("no route for %s, and no word why", subnet.Family(f))
		}
	}
	if err != nil && len(err.Error()) > 1000 {
		t.Errorf("the error has %d bytes", len(err.Error()))
	}
}

// checkCommand checks that a peer has no part in the text of a command, and that its
// variables hold nothing but checked addresses.
func (s scene) checkCommand(t testing.TB, peer subnet.Lease, c netstate.Command) {
	t.Helper()
	var keys struct{ SubnetAddCommand, SubnetRemoveCommand string }
	if err := s.cfg.Backend.Decode(&keys); err != nil {
		t.Fatal(err)
	}
	if s.cfg.Backend.Type != extension.Type || c.Run != keys.SubnetAddCommand || c.Undo != keys.SubnetRemoveCommand || c.Limit <= 0 || c.Stale {
		t.Errorf("%+v", c)
	}
	if !slices.Contains(peer.Subnets[:], c.Subnet) {
		t.Errorf("%s for %s", c, peer.Subnets)
	}
	for line := range strings.Lines(c.Env) {
		name, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		_, badIP := netip.ParseAddr(value)
		_, badSubnet := netip.ParsePrefix(value)
		if !ok || badIP != nil && badSubnet != nil || !slices.Contains([]string{"SUBNET", "PUBLIC_IP", "IPV6SUBNET", "PUBLIC_IPV6"}, name) {
			t.Errorf("a variable is %q", line)
		}
	}
}

// checkRoute checks that the route leads exactly to the peer's subnet, through a
// device of ours or a host on a link of this one.
func (s scene) checkRoute(t testing.TB, peer subnet.Lease, f subnet.Family, r netstate.Route, ours bool) {
	t.Helper()
	if r.Dst != peer.Subnets[f] || r.Metric != 0 || r.Protocol != 0 || r.Via.IsValid() && subnet.FamilyOf(r.Via) != f {
		t.Errorf("%s for %s", r, peer.Subnets)
	}
	if r.MTU != 0 && (r.MTU < backend.MinimumMTU[f] || r.MTU >= s.own.Node.MTU) {
		t.Errorf("%s where ours is %d", r, s.own.Node.MTU)
	}
	if ours && (s.cfg.Backend.Type == wireguard.Type || s.cfg.Backend.Type == udp.Type) {
		if r.Via.IsValid() || r.OnLink || r.Wrap {
			t.Errorf("%s", r)
		}
		return
	}
	if ours {
		if r.OnLink == r.Wrap || r.Wrap != (r.From == s.host.Uplinks[f].Address) || r.Via != peer.PublicIP[f] && r.Via != peer.Subnets[f].Addr() {
			t.Errorf("%s for %s", r, peer.PublicIP)
		}
		return
	}
	if u := s.host.Uplinks[f]; s.cfg.Backend.Type == cloud.Type {
		if !peer.Routed[f] || !u.Gateway.IsValid() || r.Via != u.Gateway || r.Link != u.Link || r.Wrap || r.Dst.Contains(r.Via) {
			t.Errorf("%s, which is routed: %v", r, peer.Routed)
		}
		return
	}
	if link, direct := s.host.Direct(peer.PublicIP[f]); !direct || link != r.Link || r.Via != peer.PublicIP[f] || r.OnLink || r.Wrap {
		t.Errorf("%s for %s, which is on %q", r, peer.PublicIP, link)
	}
}
