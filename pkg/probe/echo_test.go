package probe

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
)

// TestEcho sends real packets from one host to another, where a daemon answers, and
// then none does.
func TestEcho(t *testing.T) {
	a, b := kerneltest.NewNS(t, "probing"), kerneltest.NewNS(t, "probed")
	kerneltest.Join(t, a, "eth0", b, "eth0")
	for i, ns := range []*kerneltest.NS{a, b} {
		ns.IP(t, fmt.Sprintf("addr add 198.18.9.%d/24 dev eth0", i+1))
		ns.IP(t, fmt.Sprintf("addr add fd00:18::9:%d/64 dev eth0 nodad", i+1))
	}
	pairs := [][2]netip.Addr{{ip("198.18.9.1"), ip("198.18.9.2")}, {ip("fd00:18::9:1"), ip("fd00:18::9:2")}}
	host := SystemEchoer{Port: 8479}
	// try sends packets until an answer comes: the kernel first resolves neighbours.
	try := func(kind Kind, size int) (answers []Answer) {
		t.Helper()
		for _, p := range pairs {
			kerneltest.Eventually(t, 20*time.Second, func() (err error) {
				a.Do(t, func() error {
					ctx, cancel := context.WithTimeoutCause(context.Background(), time.Second, errLost)
					defer cancel()
					var answer Answer
					if answer, err = host.Echo(ctx, Try{Kind: kind, From: p[0], To: p[1], Size: size}); err == nil {
						answers = append(answers, answer)
					}
					return nil
				})
				return err
			})
		}
		return answers
	}
	fails := func(kind Kind, p [2]netip.Addr, size int, lost bool) {
		t.Helper()
		a.Do(t, func() error {
			ctx, cancel := context.WithTimeoutCause(context.Background(), 200*time.Millisecond, errLost)
			defer cancel()
			if answer, err := host.Echo(ctx, Try{Kind: kind, From: p[0], To: p[1], Size: size}); err == nil || errors.Is(err, errLost) != lost {
				t.Errorf("%d of %d to %s: %+v, %v", kind, size, p[1], answer, err)
			}
			return nil
		})
	}

	var r Responder
	r.Port = host.Port
	defer r.Close()
	answer := func() {
		t.Helper()
		b.Do(t, func() error {
			r.Set([]netip.Addr{pairs[0][1], pairs[1][1]}, Tag{})
			r.Admit([]netip.Addr{pairs[0][0], pairs[1][0]})
			return nil
		})
	}
	answer()
	for _, kind := range []Kind{UDP, Bare, HalfBare, Ping} {
		for _, size := range []int{small, 1499, 1500} {
			for _, got := range try(kind, size) {
				if got.RTT <= 0 || got.Clock != (kind != Ping) || got.Ahead.Abs() > time.Second {
					t.Errorf("%d of %d: %+v", kind, size, got)
				}
			}
		}
		for _, p := range pairs {
			fails(kind, p, 1501, false)
		}
	}

	// If no socket listens, the kernel rejects the packet, which is as good.
	r.Set(nil, Tag{})
	for _, got := range try(UDP, small) {
		if got.Clock {
			t.Errorf("a clock of no host's: %+v", got)
		}
	}
	// A packet that does not return is lost, and one from a missing address is not sent.
	b.IP(t, "link set eth0 mtu 1400")
	fails(Ping, pairs[0], 1500, true)
	b.IP(t, "link set eth0 down")
	for _, p := range pairs {
		fails(UDP, p, small, true)
	}
	fails(UDP, [2]netip.Addr{ip("198.18.9.77"), pairs[0][1]}, small, false)
}

// TestResponderLimits sends far more requests than a socket answers.
func TestResponderLimits(t *testing.T) {
	ns := kerneltest.NewNS(t, "flooded")
	here := ip("127.0.0.1")
	ns.Do(t, func() error {
		r := Responder{Port: 8479}
		defer r.Close()
		r.Admit([]netip.Addr{here})
		r.Set([]netip.Addr{here, ip("10.5.1.0")}, Tag{}) // which does not exist yet
		ctx, cancel := context.WithTimeoutCause(context.Background(), 200*time.Millisecond, errLost)
		defer cancel()
		if _, err := (SystemEchoer{Port: 8479}).Echo(ctx, Try{Kind: UDP, From: here, To: here, Size: small}); err != nil {
			t.Error(err)
		}
		answered := 0
		began := time.Now()
		for range 3 * maxPackets {
			ctx, cancel := context.WithTimeoutCause(context.Background(), 20*time.Millisecond, errLost)
			if _, err := (SystemEchoer{Port: 8479}).Echo(ctx, Try{Kind: UDP, From: here, To: here, Size: small}); err == nil {
				answered++
			}
			cancel()
			if time.Since(began) > 3*time.Second {
				break
			}
		}
		if limit := maxPackets * (int(time.Since(began)/time.Second) + 2); answered == 0 || answered > limit {
			t.Errorf("%d answers in %s", answered, time.Since(began))
		}
		return nil
	})
}
