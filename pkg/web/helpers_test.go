package web

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tulle-net/tulle/pkg/httpd"
	"github.com/tulle-net/tulle/pkg/probe"
	"github.com/tulle-net/tulle/pkg/status"
)

var pages = flag.String("pages", "", "folder to write the pages of the tests to, for a look at them")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a daemon with a given state.
type fake struct {
	state State
	peers []status.Peer
	stuck bool
}

func (f fake) Alive(ctx context.Context) bool { return !f.stuck }

func (f fake) State(context.Context) State {
	if f.stuck {
		f.state.Network, f.state.Lease, f.state.Interfaces, f.state.Peers = status.Network{}, nil, nil, status.Count{}
		f.state.Stuck = "the daemon's main loop did not answer: context deadline exceeded"
		f.lack("loop", f.state.Stuck)
		for _, name := range []string{"config", "interface", "lease", "peers", "node"} {
			f.lack(name, status.Unknown)
		}
	}
	return f.state
}

// lack makes a check fail.
func (f *fake) lack(name string, why ...string) {
	s := &f.state
	s.Checks = slices.Clone(s.Checks)
	for i := range s.Checks {
		if s.Checks[i].Name == name {
			s.Checks[i].Missing = why
		}
	}
	s.Ready, s.Missing = s.Checks.Ready(), s.Checks.Missing()
}

// checksOf returns the checks of a node with n peers, all of which hold.
func checksOf(n int) status.Checks {
	return status.Checks{
		{Name: "loop", Text: "responding"}, {Name: "config", Text: "10.64.0.0/10, fd00:5::/48 by vxlan"},
		{Name: "interface", Text: "eth0 10.0.0.1, eth0 2001:db8::1"}, {Name: "lease", Text: "10.127.3.0/24, fd00:5:0:3::/64"},
		{Name: "peers", Text: fmt.Sprintf("%d peers", n)}, {Name: "kernel", Text: fmt.Sprintf("%d objects", 3*n+5)},
		{Name: "firewall", Text: "in sync"}, {Name: "files", Text: "up to date"}, {Name: "node", Text: "nothing missing"},
	}
}

func (f fake) Peers(context.Context) ([]status.Peer, error) {
	if f.stuck {
		return nil, errors.New("stuck")
	}
	return f.peers, nil
}

func before(d time.Duration) time.Time { return time.Now().Add(-d) }

func since(d time.Duration) *time.Time {
	t := before(d)
	return &t
}

func prefix(s string) netip.Prefix { return netip.MustParsePrefix(s) }

// peer returns the i-th peer.
func peer(i int) status.Peer {
	a := netip.AddrFrom4([4]byte{10, byte(64 + i>>8), byte(i), 0})
	way := "tunnel"
	if i%3 == 0 {
		way = "direct"
	}
	return status.Peer{
		Key: fmt.Sprintf("%s-24", a), Name: fmt.Sprintf("worker-%d", i+1), Subnets: []netip.Prefix{netip.PrefixFrom(a, 24)},
		Addresses: []netip.Addr{netip.AddrFrom4([4]byte{198, 18, byte(i >> 8), byte(i)})}, By: way, InSync: true,
	}
}

func behind(p status.Peer) status.Peer {
	p.InSync, p.Problem, p.Since = false, "route "+p.Subnets[0].String()+" via "+p.Addresses[0].String()+" dev eth0: file exists", since(3*time.Minute)
	return p
}

func lost(p status.Peer) status.Peer {
	p.InSync, p.By, p.Problem, p.Since = false, "", "the lease has no VTEP MAC of IPv4", since(50*time.Minute)
	p.Probes = nil // there is no path to probe
	return p
}

// trips returns a peer's round trip in milliseconds: most are in one building.
func trips(i int) float64 {
	ms := .18 + float64(i*37%41)/100
	switch {
	case i%197 == 150:
		ms += 180
	case i%53 == 31:
		ms += 23
	case i%7 == 2:
		ms += 1.3
	}
	return ms
}

// probed returns p with probes that failed for a cause, or passed.
func probed(p status.Peer, ms float64, cause probe.Cause) status.Peer {
	f := probe.Finding{Cause: cause, Passes: 1280, By: "wg0", Err: errors.New("sendto: operation not permitted"), Path: probe.Path{
		To: p.Subnets[0].Addr(), HostTo: p.Addresses[0], Tunnel: "UDP port 8472", Link: "tulle.1", MTU: 1430,
	}}
	p.Probes = &status.PeerProbes{At: before(40 * time.Second), Cause: string(cause), Problem: f.Why()}
	if cause == probe.Well || cause == probe.SmallMTU {
		p.Probes.Millis = ms
	}
	if cause != probe.Well {
		p.Probes.Since = since(7 * time.Minute)
	}
	return p
}

// sum summarizes the probes of peers.
func sum(peers []status.Peer) *status.Probes {
	r := &status.Probes{Failing: make(map[string]int), Failed: map[string]uint64{string(probe.Down): 2}}
	for _, bound := range probe.Bounds() {
		r.Took = append(r.Took, status.Took{Millis: float64(bound.Microseconds()) / 1000})
	}
	for _, p := range peers {
		q := p.Probes
		if q == nil {
			continue
		}
		r.Known++
		if q.Cause != "" {
			r.Failing[q.Cause]++
			r.Failed[q.Cause] += 3
			if len(r.Examples) < 5 {
				r.Examples = append(r.Examples, status.Problem{What: p.Name + " (" + p.Key + ")", Why: q.Problem})
			}
			continue
		}
		r.Passed++
		r.MeanMillis += q.Millis
		for i := range r.Took {
			if q.Millis <= r.Took[i].Millis {
				r.Took[i].Count++
			}
		}
	}
	r.MeanMillis /= float64(max(1, r.Passed))
	return r
}

// well returns a node with n peers and no fault. With many peers it has the probes of
// some.
func well(n int) fake {
	f := fake{state: State{Resyncs: 41, Report: status.Report{
		Version: "1.2.3", Started: before(49 * time.Hour), NodeID: "4f0c2d1e9b7a4c55a1f3", Name: "worker-0", Ready: true, Checks: checksOf(n),
		Network: status.Network{Networks: []netip.Prefix{prefix("10.64.0.0/10"), prefix("fd00:5::/48")}, Backend: "vxlan", MTU: 1430, Devices: []string{"tulle.1", "tulle6.1"}},
		Lease: &status.Lease{
			Key: "10.127.3.0-24", Subnets: []netip.Prefix{prefix("10.127.3.0/24"), prefix("fd00:5:0:3::/64")},
			Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")}, Since: since(3 * time.Hour), Renewed: since(90 * time.Second),
		},
		Interfaces: []status.Interface{
			{Family: "IPv4", Name: "eth0", Address: netip.MustParseAddr("10.0.0.1"), Public: netip.MustParseAddr("192.0.2.1"), MTU: 1500, Why: "default route"},
			{Family: "IPv6", Name: "eth0", Address: netip.MustParseAddr("2001:db8::1"), Public: netip.MustParseAddr("2001:db8::1"), MTU: 1500, Why: "default route"},
		},
		Peers: status.Count{All: n},
		Store: status.Store{Kind: "etcd", Endpoints: []string{"https://192.0.2.8:2379", "https://192.0.2.9:2379", "https://192.0.2.10:2379"}, Revision: 77123, Watching: since(2 * time.Hour)},
		Kernel: status.Kernel{
			InSync: true, Since: before(time.Hour), Objects: 3*n + 5, LastResync: before(41 * time.Second), ResyncMillis: 9.4,
			Healed: map[string]uint64{"link": 1, "sysctl": 0, "addr": 0, "neigh": 0, "fdb": 0, "route": 2},
		},
		Firewall: status.Firewall{Written: true},
	}}}
	for i := range n {
		p := peer(i)
		if i%(n/1000+1) == 0 {
			p = probed(p, trips(i), probe.Well)
		}
		f.peers = append(f.peers, p)
	}
	f.state.Probes = sum(f.peers)
	return f
}

// troubled is well with faults of some peers.
func troubled(n int) fake {
	f := well(n)
	for i := range f.peers {
		switch {
		case i%97 == 5 || i > n*7/8 && i%3 == 0:
			f.peers[i] = behind(f.peers[i])
			f.state.Kernel.Failing = append(f.state.Kernel.Failing, status.Failing{
				What: "route " + f.peers[i].Subnets[0].String(), Owner: f.peers[i].Key, Why: "file exists", Since: before(3 * time.Minute),
			})
			f.state.Kernel.InSync = false
		case i%131 == 1:
			f.peers[i] = lost(f.peers[i])
			f.state.Peers.Unroutable++
		case i%73 == 9:
			f.peers[i] = probed(f.peers[i], trips(i), probe.Causes()[i/73%len(probe.Causes())])
		}
	}
	f.state.Probes = sum(f.peers)
	return f
}

// ill returns a node with every kind of trouble.
func ill() fake {
	f := troubled(300)
	s := &f.state
	s.Lease, s.Remembered = nil, since(5*time.Minute)
	f.lack("lease", "no subnet: out of subnets in 10.64.0.0/10: delete leases of hosts that are gone")
	f.lack("peers", "reading the leases from the store")
	f.lack("kernel", "the kernel refuses link tulle.1: address already in use: another vxlan device has VNI 1 and port 8472", "watch failed: no buffer space available")
	f.lack("firewall", "firewall not in sync: masquerade: the kernel has no nftables")
	f.lack("files", "/run/flannel/subnet.env is out of date: no space left on device")
	f.lack("node", "cni0 has 10.5.3.1/24, which is outside this node's subnet")
	s.RejectedCount = 1
	s.Rejected = []status.Rejection{{Key: "10.9.0.0-24", Code: "outside-network", Why: "no part of 10.64.0.0/10"}}
	s.Clone = &status.Clone{ID: "4f0c2d1e9b7a4c55a1f3", Name: "worker-7", Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.7")}, Since: before(time.Hour), Fix: "systemd-machine-id-setup"}
	s.Store.Failing = []status.Problem{{What: "holding the lease", Why: "etcd at https://192.0.2.9:2379 does not answer: context deadline exceeded"}}
	s.Kernel.Pending = 4
	s.Kernel.Failing = append(s.Kernel.Failing, status.Failing{What: "link tulle.1", Owner: "host", Why: "address already in use: another vxlan device has VNI 1 and port 8472", Since: before(20 * time.Second)})
	s.Kernel.Problems = []string{"watch failed: no buffer space available"}
	s.Firewall = status.Firewall{Problem: "masquerade: the kernel has no nftables", Healed: 12}
	s.Probes.Problems = []string{
		"this node's clock is 1m4.2s behind most others; let NTP set it (timedatectl)",
		"no peer answers: this host sends to them through eth1, but its uplink is eth0 with 192.0.2.1, chosen by the default route; if that is wrong, set --iface",
	}
	s.Files = []status.Problem{{What: "/run/flannel/subnet.env", Why: "no space left on device"}}
	s.Fights = []status.Fight{
		{Kind: "kernel", What: "link tulle.1", Owner: "host", Since: before(3 * time.Minute), Restored: 21, Rate: .1, Wrong: .004},
		{Kind: "kernel", What: "route 10.5.4.0/24", Owner: "10.5.4.0-24", Since: before(time.Minute), Restored: 20, Rate: .4, Wrong: .001},
		{Kind: "file", What: "/run/flannel/subnet.env", Since: before(time.Minute), Restored: 40, Rate: 2, Wrong: .03},
		{Kind: "firewall", What: "forward", Since: before(time.Hour), Restored: 10400, Rate: 120, Wrong: .61, Lost: true},
		{Kind: "firewall", What: "masquerade", Since: before(time.Hour), Restored: 10400, Rate: 120, Wrong: .61, Lost: true},
	}
	return f
}

func serveTo(t testing.TB, o Options, s Source, method, path string) *httptest.ResponseRecorder {
	t.Helper()
	h := httpd.Handler(o.Options, newMux(o, s))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, path, nil))
	return w
}

func ask(h http.Handler, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w
}

// counted counts the requests to the daemon.
type counted struct {
	fake
	states, peersAsked int
}

func (c *counted) State(ctx context.Context) State {
	c.states++
	return c.fake.State(ctx)
}

func (c *counted) Peers(ctx context.Context) ([]status.Peer, error) {
	c.peersAsked++
	return c.fake.Peers(ctx)
}

// beyond serves on all addresses.
var beyond = Options{Program: "tulled", Options: httpd.Options{Address: netip.IPv4Unspecified()}}

func get(t testing.TB, s Source, path string) *httptest.ResponseRecorder {
	t.Helper()
	w := serveTo(t, beyond, s, http.MethodGet, path)
	if *pages != "" && path == "/statusz" {
		name := filepath.Join(*pages, filepath.Base(t.Name())+".html")
		if err := os.WriteFile(name, w.Body.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return w
}
