package network

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/tulle-net/tulle/backend"
	"github.com/tulle-net/tulle/backend/backendtest"
	"github.com/tulle-net/tulle/backend/move"
	"github.com/tulle-net/tulle/backend/wireguard"
	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/pkg/status"
	"github.com/tulle-net/tulle/pkg/wgkey"
	"github.com/tulle-net/tulle/subnet"
)

const ownWireGuardKey, peerWireGuardKey = "AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", "AgAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="

func wireguardKey(t *testing.T, text string) netstate.PublicKey {
	t.Helper()
	key, err := netstate.ParsePublicKey(text)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// encryptedView is a View of a node with the backend wireguard and one peer.
func encryptedView(t *testing.T, peers ...netstate.Session) View {
	h := backendtest.Host()
	own := wireguardKey(t, ownWireGuardKey)
	h.WireGuardKeys = func() (backend.WireGuardKeys, error) { return backend.WireGuardKeys{Device: own, Published: own}, nil }
	b := backendtest.New(t, wireguard.New, backendtest.Config(t, wireguard.Type, backendtest.Dual, ""), h)
	a := subnet.Attrs{BackendType: wireguard.Type, PublicIP: backendtest.Addresses("192.0.2.2", "2001:db8::2")}
	a.BackendData = subnet.Pair[string]{`{"PublicKey":"` + peerWireGuardKey + `","Port":51820}`, `{"PublicKey":"` + peerWireGuardKey + `","Port":51821}`}
	peer := backendtest.Lease(t, "10.5.2.0-24&fd00:5:0:2::-64", a)
	lease := backendtest.Lease(t, "10.5.1.0-24&fd00:5:0:1::-64", b.Publish())
	past := uint64(4)
	return View{
		At: time.Now(), Config: backendtest.Config(t, wireguard.Type, backendtest.Dual, ""), Own: lease, Backends: only(b),
		Peers: peersView{Known: true, Count: 1, All: []subnet.Peer{{Key: peer.Key(), Lease: &peer}}, host: b.Host(lease), way: func(p *subnet.Peer) move.Way {
			return only(b).Peer(lease, *p.Lease, &lease.Attrs, backend.PlainMetrics, move.Before{})
		}},
		Sessions: &sessionsView{key: wireguardKey(t, ownWireGuardKey), pastTunnel: &past, Sessions: netstate.Sessions{
			Peers: peers, Links: []netstate.Traffic{
				{Link: "tulle-wg", Received: 60, Sent: 70, Dropped: netstate.SessionDrops{NoPeer: 1, NoSession: 2, WrongSource: 1}},
				{Link: "tulle6-wg", Received: 10, Sent: 10, Dropped: netstate.SessionDrops{WrongSource: 2}},
			},
		}},
	}
}

// TestSessionsAreReported counts them, and shows those of each peer.
func TestSessionsAreReported(t *testing.T) {
	key := wireguardKey(t, peerWireGuardKey)
	now := time.Now()
	v := encryptedView(t,
		netstate.Session{Link: "tulle-wg", Peer: key, Endpoint: netip.MustParseAddrPort("192.0.2.2:51820"), Handshake: now.Add(-time.Minute), Received: 7, Sent: 8},
		netstate.Session{Link: "tulle6-wg", Peer: key},
		netstate.Session{Link: "tulle-wg", Peer: wireguardKey(t, ownWireGuardKey), Handshake: now.Add(-time.Hour)},
	)
	r := v.Report().WireGuard
	if r == nil || r.PublicKey != ownWireGuardKey || r.Sessions[status.SessionLive] != 1 || r.Sessions[status.SessionExpired] != 1 || r.Sessions[status.SessionNever] != 1 || r.Received != 70 || r.Sent != 80 {
		t.Errorf("got %+v", r)
	}
	for reason, want := range map[string]uint64{status.DropPastTunnel: 4, status.DropNoPeer: 1, status.DropNoSession: 2, status.DropWrongSource: 3, status.DropMalformed: 0} {
		if n, known := r.Dropped[reason]; n != want || !known {
			t.Errorf("%s: %d, %t", reason, n, known)
		}
	}
	if d := r.Devices; len(d) != 2 || d[0].Device != "tulle-wg" || d[0].Received != 60 || d[1].Sent != 10 || d[1].Dropped[status.DropWrongSource] != 2 {
		t.Errorf("got %+v", d)
	}
	peers := v.peerReports()
	if len(peers) != 1 || len(peers[0].Sessions) != 2 {
		t.Fatalf("got %+v", peers)
	}
	if s := peers[0].Sessions[0]; s.Device != "tulle-wg" || s.PublicKey != peerWireGuardKey || s.Endpoint != "192.0.2.2:51820" || s.Handshake == nil || s.Received != 7 || s.Sent != 8 {
		t.Errorf("got %+v", s)
	}
	if s := peers[0].Sessions[1]; s.Handshake != nil || s.Endpoint != "" {
		t.Errorf("got %+v", s)
	}
	if e := v.Explain(netip.MustParseAddr("10.5.2.2"), "tulle-wg", nil); len(e.Sessions) != 2 {
		t.Errorf("got %+v", e)
	}
}

// TestKeyIsReported with its age, its replacement, and what stops that.
func TestKeyIsReported(t *testing.T) {
	v := encryptedView(t)
	if r := v.Report().WireGuard; r.KeyMade != nil || r.Rotation != nil || r.KeyProblem != "" {
		t.Errorf("got %+v", r)
	}
	made, successor := v.At.Add(-time.Hour), wireguardKey(t, peerWireGuardKey)
	v.Keys = &keysView{state: wgkey.State{Made: made}}
	if r := v.Report().WireGuard; !r.KeyMade.Equal(made) || r.Rotation != nil {
		t.Errorf("got %+v", r)
	}
	v.Keys.state = wgkey.State{Step: wgkey.Move, Made: made, Began: v.At, Since: v.At, Successor: successor}
	v.Keys.elsewhere, v.Keys.problem = []string{"b", "c", "d", "e", "f", "g"}, "no space"
	r := v.Report().WireGuard
	if r.KeyProblem != "no space" || r.Rotation == nil || r.Rotation.Step != "move" || r.Rotation.WaitCount != 6 || len(r.Rotation.Waits) != 5 || r.Rotation.Successor != peerWireGuardKey {
		t.Errorf("got %+v, %+v", r, r.Rotation)
	}
	v.Keys = &keysView{state: wgkey.State{Made: v.At.Add(48 * time.Hour)}}
	if r := v.Report().WireGuard; r.KeyProblem != "" {
		t.Errorf("without KeyDays: %s", r.KeyProblem)
	}
	v.Keys.maxAge = time.Hour
	if r := v.Report().WireGuard; !strings.Contains(r.KeyProblem, "is in the future") {
		t.Errorf("got %q", r.KeyProblem)
	}
}

// TestUnknownSessionsAreNotReportedAsNone says why they are unknown.
func TestUnknownSessionsAreNotReportedAsNone(t *testing.T) {
	v := encryptedView(t)
	v.Sessions.err = errors.New("no memory")
	v.Sessions.pastTunnel = nil
	if r := v.Report().WireGuard; r.Problem != "no memory" || r.Sessions != nil || len(r.Dropped) != 0 {
		t.Errorf("got %+v", r)
	}
	v.Sessions = nil
	if r := v.Report().WireGuard; r != nil {
		t.Errorf("got %+v", r)
	}
}

// TestPathsNameTheKey, so that probes find the session of a path.
func TestPathsNameTheKey(t *testing.T) {
	v := encryptedView(t)
	objects := v.Peers.wants(&v.Peers.All[0])
	if got := keyOn(objects, "tulle6-wg"); got != peerWireGuardKey {
		t.Errorf("got %q", got)
	}
	if got := keyOn(objects, "eth0"); got != "" {
		t.Errorf("got %q", got)
	}
}
