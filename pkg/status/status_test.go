package status

import (
	"context"
	"errors"
	"flag"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

var update = flag.Bool("update", false, "write the golden files")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var now = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

func ago(d time.Duration) *time.Time {
	t := now.Add(-d)
	return &t
}

func well() Report {
	return Report{
		Version: "1.2.3", Started: *ago(49 * time.Hour), NodeID: "id", Name: "node-1", Ready: true,
		Network:    Network{Networks: []netip.Prefix{netip.MustParsePrefix("10.5.0.0/16"), netip.MustParsePrefix("fd00:5::/48")}, Backend: "vxlan", MTU: 1430, Devices: []string{"tulle.1", "tulle6.1"}},
		Lease:      &Lease{Key: "10.5.3.0-24", Subnets: []netip.Prefix{netip.MustParsePrefix("10.5.3.0/24")}, Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.1")}, Since: ago(3 * time.Hour), Renewed: ago(90 * time.Second)},
		Interfaces: []Interface{{Family: "IPv4", Name: "eth0", Address: netip.MustParseAddr("10.0.0.1"), Public: netip.MustParseAddr("192.0.2.1"), MTU: 1500, Why: "default route"}},
		Peers:      Count{All: 3},
		Store:      Store{Kind: "etcd", Endpoints: []string{"https://192.0.2.9:2379"}, Revision: 77, Watching: ago(2 * time.Hour), Last: &Problem{"watching the leases", "no answer in time"}, LastAt: ago(2 * time.Hour)},
		Kernel:     Kernel{InSync: true, Since: *ago(time.Hour), Objects: 12, Healed: map[string]uint64{"route": 2, "link": 1, "neigh": 0}, LastResync: *ago(time.Minute), ResyncMillis: 0.9},
		Firewall:   Firewall{Written: true},
		Probes:     &Probes{Known: 3, Passed: 7001, MeanMillis: 0.312},
	}
}

func ill() Report {
	r := well()
	r.Ready, r.Missing, r.Remembered = false, []string{"leasing a subnet"}, ago(5*time.Minute)
	r.Lease = nil
	r.Peers.Unroutable = 1
	r.Rejected, r.RejectedCount = []Rejection{{"10.9.0.0-24", "outside-network", "outside the network"}}, 50000
	r.Reserved = 2
	r.Clone = &Clone{ID: "id", Name: "node-2", Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.2")}, Since: *ago(time.Hour), Fix: "a command"}
	r.Store.Watching = nil
	r.Store.Etcd = &Etcd{State: "running", PID: 7, Version: "3.7.3", Ignored: []string{"--network=10.6.0.0/16"}}
	r.Probes.Failing = map[string]int{"down": 1, "mtu": 1}
	r.Probes.Examples = []Problem{{"node-7 (10.5.7.0-24)", "its host does not answer"}}
	r.Probes.Problems = []string{"this node's clock is 1h0m0s behind most others"}
	r.Store.Failing = []Problem{{"renewing the lease", "no answer"}}
	r.Kernel.InSync, r.Kernel.Pending = false, 4
	r.Kernel.Failing = []Failing{{"route 10.5.4.0/24", "10.5.4.0-24", "file exists", *ago(20 * time.Second)}}
	r.Kernel.Problems = []string{"watch failed: no"}
	r.Network.Offload = &Offload{Since: *ago(3 * time.Hour), Trials: 2, Next: ago(-25 * time.Minute)}
	r.Network.Move = &Move{Round: 3, From: []string{"udp", "host-gw"}, Since: *ago(20 * time.Minute), Peers: 3, Switched: 1, WaitCount: 7, Waits: []MoveWait{
		{"10.5.7.0-24", "node-7", "its lease has only udp"}, {"10.5.8.0-24", "", "it still sends by udp"},
	}}
	r.Network.Moved = []Moved{
		{Device: "tulle.udp", PacketsOut: 7000, BytesOut: 7000000, PacketsIn: 6000, BytesIn: 400000, Dropped: map[string]uint64{"stranger": 12, "expired": 3, "refused": 0}},
		{Device: "tulle6.udp", PacketsOut: 1, Dropped: map[string]uint64{"refused": 0}},
	}
	r.Firewall = Firewall{Problem: "masquerade: no nftables"}
	r.Files = []Problem{{"/run/flannel/subnet.env", "no space left on device"}}
	r.Exposed = []string{"--etcd-keyfile: /etc/tulle/key.pem has mode 0644, so every user of this host may read it; run: chmod o-rwx /etc/tulle/key.pem"}
	r.WireGuard = &WireGuard{
		PublicKey: "AgAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", Sessions: map[string]int{SessionLive: 7, SessionNever: 1}, Received: 12_345_678, Sent: 999,
		Dropped: map[string]uint64{DropPastTunnel: 3, DropNoPeer: 0},
		KeyMade: ago(200 * 24 * time.Hour), KeyProblem: "write /var/lib/tulle/wireguard-key: no space left on device; free space on the file system",
		Rotation: &Rotation{Step: "move", Began: *ago(20 * time.Minute), Since: *ago(20 * time.Minute)},
	}
	r.WireGuard.Rotation.SetWaits([]string{"node-1", "node-2", "node-3", "node-4", "node-5", "node-6"})
	r.Fights = []Fight{
		{Kind: "kernel", What: "link tulle.1", Owner: "host", Since: *ago(3 * time.Minute), Restored: 21, Rate: .1, Wrong: .004},
		{Kind: "firewall", What: "forward", Since: *ago(time.Hour), Restored: 10400, Rate: 120, Wrong: .61, Lost: true},
	}
	return r
}

func peers() []Peer {
	p := func(subnet, node string) Peer {
		return Peer{Key: subnet, Name: node, Subnets: []netip.Prefix{netip.MustParsePrefix(subnet)}, Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.7")}, By: "tunnel", InSync: true}
	}
	bad := p("10.5.9.0/24", "")
	bad.By, bad.InSync, bad.Problem, bad.Since = "", false, "no public IP", ago(time.Minute)
	late := p("10.5.8.0/24", "node-8")
	late.InSync = false
	near, far := p("10.5.6.0/24", "node-6"), p("10.5.5.0/24", "node-5")
	near.Probes = &PeerProbes{At: now, Millis: 0.2}
	near.Sessions = []Session{{Device: "tulle-wg", Handshake: ago(12 * time.Second), Received: 1000, Sent: 2_500_000_000_000_000}}
	far.Sessions = []Session{{Device: "tulle-wg"}, {Device: "tulle6-wg", Handshake: ago(time.Hour)}}
	far.Probes = &PeerProbes{At: now, Cause: "down", Problem: "its host does not answer", Since: ago(3 * time.Minute)}
	return []Peer{p("10.5.7.0/24", "node-7"), near, late, bad, far}
}

func leases() Leases {
	return Leases{Config: []byte(`{"Network":"10.5.0.0/16"}`), Leases: []LeaseEntry{{Key: "10.5.7.0-24", State: LeaseAccepted, Expires: ago(-time.Hour)}}}
}

func explained() Explanation {
	return Explanation{
		Address: netip.MustParseAddr("10.5.7.2"), Code: Incomplete, Verdict: "belongs to a peer", Key: "10.5.7.0-24", Node: "node-7", Path: "dev tulle.1 src 10.5.3.0",
		Probes:   &PeerProbes{At: now, Millis: 0.2},
		Sessions: []Session{{Device: "tulle-wg", Endpoint: "192.0.2.7:51820", Handshake: ago(time.Minute), Sent: 148}, {Device: "tulle6-wg"}},
		Entries:  []Entry{{"a", "a", true}, {"b", "", false}, {"", "c", false}, {"d", "e", false}},
	}
}

// TestText compares the texts for people with golden files.
func TestText(t *testing.T) {
	for name, write := range map[string]func(b *strings.Builder) error{
		"well.txt":    func(b *strings.Builder) error { return WriteReport(b, "tulled", well(), now) },
		"ill.txt":     func(b *strings.Builder) error { return WriteReport(b, "tulled", ill(), now) },
		"nothing.txt": func(b *strings.Builder) error { return WriteReport(b, "tulled", Report{}, now) },
		"peers.txt":   func(b *strings.Builder) error { return WritePeers(b, peers(), now, Layout{}) },
		"narrow.txt":  func(b *strings.Builder) error { return WritePeers(b, peers(), now, Layout{Narrow: true}) },
		"explain.txt": func(b *strings.Builder) error { return WriteExplanation(b, explained()) },
	} {
		var b strings.Builder
		if err := write(&b); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if want, err := os.ReadFile(path); err != nil || string(want) != b.String() {
			t.Errorf("%s: %v, got:\n%s", name, err, b.String())
		}
	}
}

// TestJustStarted: right after a start, ages are seconds or less, and read like the
// rest of the report.
func TestJustStarted(t *testing.T) {
	r := well()
	for _, at := range []*time.Time{&r.Started, r.Lease.Since, r.Lease.Renewed, r.Store.Watching, &r.Kernel.Since, &r.Kernel.LastResync} {
		*at = now.Add(-time.Second / 2)
	}
	var b strings.Builder
	if err := WriteReport(&b, "tulled", r, now); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"started just now", "held for less than 1s, renewed just now", "watching for less than 1s", "in sync for less than 1s", "resync just now"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is not in:\n%s", want, b.String())
		}
	}
	if strings.Contains(b.String(), "since") {
		t.Errorf("got:\n%s", b.String())
	}
}

// source answers with its fields.
type source struct {
	report Report
	err    error
	asked  chan netip.Addr
}

func (s source) Report(context.Context) Report          { return s.report }
func (s source) Peers(context.Context) ([]Peer, error)  { return peers(), s.err }
func (s source) Leases(context.Context) (Leases, error) { return leases(), s.err }
func (s source) Explain(_ context.Context, a netip.Addr) (Explanation, error) {
	if s.asked != nil {
		s.asked <- a
	}
	return explained(), s.err
}

func TestBadRequests(t *testing.T) {
	for path, want := range map[string]int{
		"/status": http.StatusOK, "/peers": http.StatusServiceUnavailable, "/explain": http.StatusBadRequest, "/explain?ip=fe80::1%25eth0": http.StatusBadRequest,
		"/explain?ip=" + strings.Repeat("1", 1000): http.StatusBadRequest, "/": http.StatusNotFound, "/../etc/passwd": http.StatusNotFound,
	} {
		w := httptest.NewRecorder()
		handler(source{err: errors.New("stuck")}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if w.Code != want && w.Code != http.StatusMovedPermanently && w.Code != http.StatusTemporaryRedirect {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	w := httptest.NewRecorder()
	handler(source{}).ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/status", nil))
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", w.Code)
	}
}
