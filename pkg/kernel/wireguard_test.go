package kernel

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/netstate"
)

var wgKey = netstate.PublicKeyOf

// bodyOf returns the body of the one message that was written.
func bodyOf(t testing.TB, w *writer) []byte {
	t.Helper()
	for m := range messages(w.buf) {
		if int(native.Uint32(w.buf)) != len(w.buf) {
			t.Fatalf("the message's header has the length %d, and the message %d", native.Uint32(w.buf), len(w.buf))
		}
		return m.body
	}
	t.Fatal("no message")
	return nil
}

// TestWireGuardMessages decodes the messages that were encoded for the kernel, which
// answers in the same format.
func TestWireGuardMessages(t *testing.T) {
	at4, at6 := netip.MustParseAddrPort("192.0.2.7:51820"), netip.MustParseAddrPort("[2001:db8::7]:51821")
	secret := [32]byte{7}
	peer := netstate.WGPeer{Link: "tulle-wg", Peer: wgKey([32]byte{2}), Endpoint: at4, Keepalive: 25, PSK: netstate.PSKOf(secret)}
	peer6 := peer
	peer6.Endpoint = at6
	allowed := netstate.WGAllowed{Link: "tulle-wg", Prefix: netip.MustParsePrefix("10.5.3.0/24"), Peer: peer.Peer}
	allowed6 := allowed
	allowed6.Prefix = netip.MustParsePrefix("fd00:5:0:3::/64")
	for _, want := range []netstate.Object{peer, peer6, allowed, allowed6} {
		var w writer
		p, _ := want.(netstate.WGPeer)
		w.wgRequest(30, netstate.Op{Verb: netstate.Replace, Object: want}, secret, p.Endpoint, 1)
		m := decodeWireGuard(bodyOf(t, &w), "tulle-wg")
		var got []netstate.Object
		for _, p := range m.peers {
			got = append(got, p.WGPeer)
		}
		for _, a := range m.allowed {
			got = append(got, a)
		}
		if !slices.Equal(got, []netstate.Object{want}) {
			t.Errorf("wrote %s, read %s", want, got)
		}
	}

	var w writer
	w.wgRequest(30, netstate.Op{Verb: netstate.Delete, Object: allowed}, secret, at4, 1)
	m := decodeWireGuard(bodyOf(t, &w), "tulle-wg")
	if len(m.peers) != 0 || len(m.allowed) != 1 || m.allowed[0].Peer.Bytes() != sink || m.allowed[0].Prefix != allowed.Prefix {
		t.Errorf("to delete a prefix, the message is %+v", m)
	}
	if strings.Contains(string(w.buf), string(secret[:])) {
		t.Error("a deletion has the preshared key")
	}
}

func TestDecodeWireGuardTime(t *testing.T) {
	b := native.AppendUint64(native.AppendUint64(nil, 1700000000), 5)
	if got := decodeTime(b); !got.Equal(time.Unix(1700000000, 5)) {
		t.Errorf("got %s", got)
	}
	for _, b := range [][]byte{nil, make([]byte, 15), make([]byte, 16)} {
		if got := decodeTime(b); !got.IsZero() {
			t.Errorf("%d bytes are %s", len(b), got)
		}
	}
}

func FuzzDecodeWireGuard(f *testing.F) {
	for _, o := range []netstate.Object{
		netstate.WGPeer{Link: "tulle-wg", Peer: wgKey([32]byte{2}), Endpoint: netip.MustParseAddrPort("[2001:db8::7]:51821")},
		netstate.WGAllowed{Link: "tulle-wg", Prefix: netip.MustParsePrefix("10.5.3.0/24"), Peer: wgKey([32]byte{2})},
	} {
		var w writer
		p, _ := o.(netstate.WGPeer)
		w.wgRequest(30, netstate.Op{Verb: netstate.Replace, Object: o}, [32]byte{}, p.Endpoint, 1)
		f.Add(w.buf[unix.NLMSG_HDRLEN:])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m := decodeWireGuard(b, "tulle-wg")
		for _, p := range m.peers {
			if p.Peer.IsZero() || p.Link != "tulle-wg" {
				t.Errorf("read %s", p.WGPeer)
			}
		}
		for _, a := range m.allowed {
			if !a.Prefix.IsValid() {
				t.Errorf("read %s", a)
			}
		}
	})
}

// TestWireGuardNeedsItsPrivateKey checks that a device without a known private key is
// not made.
func TestWireGuardNeedsItsPrivateKey(t *testing.T) {
	ns := kerneltest.NewNS(t, "host")
	k := open(t, ns)
	link := netstate.Link{Name: "tulle-wg", Kind: netstate.TunnelWireGuard, MTU: 1420, Group: netstate.Mark, Up: true, WireGuard: netstate.WireGuard{Key: wgKey([32]byte{2}), Port: 51820}}
	err := k.Apply(context.Background(), netstate.Plan{{Verb: netstate.Create, Object: link}})
	if err == nil || !strings.Contains(err.Error(), "link tulle-wg: no private key for the public key "+link.WireGuard.Key.String()) {
		t.Errorf("got %v", err)
	}
	if out := ns.IP(t, "link show"); strings.Contains(out, "tulle-wg") {
		t.Errorf("there is\n%s", out)
	}
}

// ring has every key.
type ring struct{}

func (ring) PrivateKey(netstate.PublicKey) (key [32]byte, ok bool) { return [32]byte{8}, true }
func (ring) PSK(netstate.PSK) (key [32]byte, ok bool)              { return [32]byte{8}, true }

// TestWireGuardIsAskedForAgain unloads the module and loads it again, so that its
// family has another number. The first request fails for that reason, and the next one
// asks for the number again.
func TestWireGuardIsAskedForAgain(t *testing.T) {
	k := open(t, kerneltest.NewNS(t, "host"))
	k.UseSecrets(ring{})
	link := netstate.Link{Name: "tulle-wg", WireGuard: netstate.WireGuard{Key: wgKey([32]byte{2}), Port: 51820}}
	peer := netstate.WGPeer{Link: link.Name, Peer: wgKey([32]byte{3})}
	for name, request := range map[string]func() error{
		"configure": func() error { return k.wireguard.configure(k.namespace, link) },
		"apply": func() error {
			return k.Apply(context.Background(), netstate.Plan{{Verb: netstate.Create, Object: peer}})
		},
		"dump": func() error {
			_, _, err := k.dumpWireGuard(context.Background(), link.Name, nil)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := dial(k.namespace, unix.NETLINK_GENERIC)
			if err != nil {
				t.Fatal(err)
			}
			k.wireguard.conn, k.wireguard.family, k.wireguard.given = c, 1<<15, netstate.Endpoints{}
			if err := request(); !errors.Is(err, unix.ENOENT) {
				t.Errorf("a family that is gone: %v", err)
			}
			if k.wireguard.conn != nil {
				t.Error("the next request uses the same number")
				k.wireguard.close()
			}
		})
	}
}
