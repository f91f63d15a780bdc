package probe

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
)

// asks sends a request from an address of its namespace, and waits for an answer.
func asks(within time.Duration, from, to netip.Addr, port uint16, kind Kind, tag Tag) error {
	ctx, cancel := context.WithTimeoutCause(context.Background(), within, errLost)
	defer cancel()
	_, err := (SystemEchoer{Port: port}).Echo(ctx, Try{Kind: kind, From: from, To: to, Size: small, Tag: tag})
	return err
}

// TestOnlyPeersAreAnswered asks from addresses of peers, of containers, and of
// strangers.
func TestOnlyPeersAreAnswered(t *testing.T) {
	ns := kerneltest.NewNS(t, "peers")
	for _, ip := range []string{"10.5.1.0", "10.5.2.0", "10.5.2.7", "10.5.7.0", "10.6.2.0", "198.19.255.255"} {
		ns.IP(t, "addr add "+ip+"/32 dev lo")
	}
	for _, ip := range []string{"fd00:5:0:1::", "fd00:5:0:2::", "fd00:5:0:2::7", "fd00:6:0:2::"} {
		ns.IP(t, "addr add "+ip+"/128 dev lo nodad")
	}
	for _, tag := range []Tag{{}, NewTag("here")} {
		ns.Do(t, func() error {
			r := Responder{Port: 8479}
			defer r.Close()
			r.Set([]netip.Addr{ip("10.5.1.0"), ip("fd00:5:0:1::")}, tag)
			answered := func(want error, from ...string) {
				t.Helper()
				for _, s := range from {
					at := ip("10.5.1.0")
					if ip(s).Is6() {
						at = ip("fd00:5:0:1::")
					}
					within := 5 * time.Second
					if want != nil {
						within = 20 * time.Millisecond
					}
					for _, kind := range []Kind{UDP, Bare, HalfBare} {
						for _, sent := range []Tag{{}, NewTag("here"), NewTag("elsewhere")} {
							err := asks(within, ip(s), at, r.Port, kind, sent)
							if slow := net.Error(nil); want != nil && errors.As(err, &slow) && slow.Timeout() {
								continue // on a busy machine, not even the request gets out in time
							}
							if !errors.Is(err, want) {
								t.Errorf("kind %d from %s: %v, want %v", kind, s, err, want)
							}
						}
					}
				}
			}
			answered(errLost, "10.5.2.0", "fd00:5:0:2::")
			peers := []netip.Addr{ip("10.5.2.0"), ip("10.5.6.0"), ip("10.5.3.0"), ip("fd00:5:0:2::")}
			r.Admit(peers)
			answered(nil, "10.5.2.0", "fd00:5:0:2::")
			answered(errLost, "10.5.2.7", "10.5.7.0", "10.6.2.0", "198.19.255.255", "fd00:5:0:2::7", "fd00:6:0:2::")
			r.Admit([]netip.Addr{ip("10.6.2.0")})
			answered(nil, "10.5.2.0", "10.6.2.0")
			r.Dismiss([]netip.Addr{ip("10.6.2.0")})
			answered(errLost, "10.6.2.0")
			answered(nil, "10.5.2.0", "fd00:5:0:2::")
			return nil
		})
	}
}

// TestNoResponderIsAnswered sends requests from the daemons' port.
func TestNoResponderIsAnswered(t *testing.T) {
	ns := kerneltest.NewNS(t, "port")
	here := ip("127.0.0.1")
	ns.Do(t, func() error {
		r := Responder{Port: 8479}
		defer r.Close()
		r.Admit([]netip.Addr{here, ip("127.0.0.2")})
		r.Set([]netip.Addr{here}, Tag{})
		conn, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(ip("127.0.0.2"), r.Port)))
		if err != nil {
			return err
		}
		defer conn.Close()
		if _, err := conn.WriteToUDPAddrPort(newRequest(request, 1, small, Tag{}), netip.AddrPortFrom(here, r.Port)); err != nil {
			return err
		}
		// Later requests are answered later.
		if err := asks(5*time.Second, ip("127.0.0.2"), here, r.Port, UDP, Tag{}); err != nil {
			t.Error(err)
		}
		if err := conn.SetReadDeadline(time.Now()); err != nil {
			return err
		}
		if n, err := conn.Read(make([]byte, 100)); err == nil {
			t.Errorf("an answer of %d bytes", n)
		}
		return nil
	})
}

// TestFloodLeavesTaggedProbesAlone floods under a peer's address, without the tag.
func TestFloodLeavesTaggedProbesAlone(t *testing.T) {
	ns := kerneltest.NewNS(t, "flooded")
	here, tag := ip("127.0.0.1"), NewTag("here")
	ns.Do(t, func() error {
		r := Responder{Port: 8479}
		defer r.Close()
		r.Admit([]netip.Addr{here})
		r.Set([]netip.Addr{here}, tag)
		flood, err := net.DialUDP("udp4", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(here, r.Port)))
		if err != nil {
			return err
		}
		defer flood.Close()
		lost := 0
		for range 20 {
			for range maxPackets {
				if _, err := flood.Write(newRequest(request, 1, small, NewTag("elsewhere"))); err != nil {
					return err
				}
			}
			if err := asks(5*time.Second, here, here, r.Port, UDP, tag); err != nil {
				t.Errorf("with the tag: %v", err)
			}
			if err := asks(20*time.Millisecond, here, here, r.Port, UDP, Tag{}); err != nil {
				lost++
			}
		}
		if lost == 0 {
			t.Error("the flood takes no answer from anything")
		}
		return nil
	})
}

// TestForgedRejectionCountsForNothing reads ICMP errors that quote other packets.
func TestForgedRejectionCountsForNothing(t *testing.T) {
	own := newRequest(request, 7, small, Tag{})
	for name, c := range map[string]struct {
		quoted []byte
		want   bool
	}{
		"whole":             {own, true},
		"its beginning":     {own[:clockAt], true},
		"too little":        {own[:clockAt-1], false},
		"nothing":           {nil, false},
		"another's request": {newRequest(request, 8, small, Tag{}), false},
		"something else":    {make([]byte, small), false},
	} {
		if got := quotes(c.quoted, 7); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	for _, control := range [][]byte{nil, make([]byte, 3), make([]byte, unix.CmsgSpace(4))} {
		if refuses(control) {
			t.Errorf("%x is an error", control)
		}
	}
}
