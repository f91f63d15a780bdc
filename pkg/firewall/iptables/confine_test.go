package iptables

import (
	"context"
	"errors"
	stdnet "net"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tulle-net/tulle/pkg/firewall"
	"github.com/tulle-net/tulle/subnet"
)

// TestConfineWritesAChain writes it once, also where nothing else is wanted, restores it,
// and removes it.
func TestConfineWritesAChain(t *testing.T) {
	bothKinds(t, func(t *testing.T, h *host, k Kind) {
		tables := h.tables(t, k)
		r := everything()
		r.Confined = subnet.Pair[[2]string]{{"tulle-wg", "tulle-wg2"}, {"tulle6-wg", "tulle6-wg2"}}
		alone := firewall.Rules{Networks: r.Networks, Own: r.Own, Confined: r.Confined}
		want := subnet.Pair[[]string]{
			{"-d 10.244.3.0/24 -j RETURN", "-d 10.244.0.0/16 -o tulle-wg2 -j RETURN", "-d 10.244.0.0/16 ! -o tulle-wg -j DROP"},
			{"-d fd00:244:0:3::/64 -j RETURN", "-d fd00:244::/48 -o tulle6-wg2 -j RETURN", "-d fd00:244::/48 ! -o tulle6-wg -j DROP"},
		}
		check := func(r firewall.Rules) {
			t.Helper()
			sync(t, h, tables, r, true)
			for _, f := range subnet.Families {
				saved := h.save(t, k)
				if got := rulesOf(saved, f, mangle.table, mangle.chain); !slices.Equal(got, want[f]) {
					t.Errorf("%s has %q", f, got)
				}
				if got := rulesOf(saved, f, mangle.table, mangle.from); len(got) != 1 || got[0] != "-m comment --comment tulle -j TULLE-CONFINE" {
					t.Errorf("%s jumps by %q", f, got)
				}
			}
		}
		check(alone)
		check(r)
		h.sh(t, k, "-t mangle -F TULLE-CONFINE")
		check(r)
		h.sh(t, k, "-t mangle -D POSTROUTING -m comment --comment tulle -j TULLE-CONFINE")
		check(r)
		sync(t, h, tables, everything(), true)
		if got := rulesOf(h.save(t, k), subnet.IPv4, mangle.table, mangle.from); len(got) > 0 {
			t.Errorf("there is still %q", got)
		}
		sync(t, h, tables, firewall.Rules{}, true)
	})
}

// TestConfineDropsWhatLeavesElsewhere sends a packet each way, in both families.
func TestConfineDropsWhatLeavesElsewhere(t *testing.T) {
	bothKinds(t, func(t *testing.T, h *host, k Kind) {
		tables := h.tables(t, k)
		r := firewall.Rules{Networks: everything().Networks, Own: everything().Own, Confined: subnet.Pair[[2]string]{{"tulle-wg", "tulle-wg2"}, {"tulle6-wg", "tulle6-wg2"}}}
		for _, device := range []string{"eth0", "tulle-wg", "tulle6-wg", "tulle-wg2", "tulle6-wg2", "cni0"} {
			h.IP(t, "link add "+device+" type bridge")
			h.IP(t, "link set "+device+" up")
		}
		h.IP(t, "addr add 198.18.0.1/24 dev eth0")
		h.IP(t, "addr add fd00:18::1/64 dev eth0 nodad")
		for to, device := range map[string]string{
			"10.244.7.0/24": "eth0", "10.244.8.0/24": "tulle-wg", "10.244.9.0/24": "tulle-wg2", "10.244.3.0/24": "cni0",
			"fd00:244:0:7::/64": "eth0", "fd00:244:0:8::/64": "tulle6-wg", "fd00:244:0:9::/64": "tulle6-wg2", "fd00:244:0:3::/64": "cni0",
		} {
			h.IP(t, "route add "+to+" dev "+device)
		}
		sync(t, h, tables, r, true)
		for to, passes := range map[string]bool{
			"10.244.7.2": false, "10.244.8.2": true, "10.244.9.2": true, "10.244.3.2": true, "198.18.0.7": true,
			"fd00:244:0:7::2": false, "fd00:244:0:8::2": true, "fd00:244:0:9::2": true, "fd00:244:0:3::2": true, "fd00:18::7": true,
		} {
			h.Do(t, func() error {
				c, err := stdnet.Dial("udp", stdnet.JoinHostPort(to, "9"))
				if err != nil {
					return err
				}
				defer c.Close()
				if _, err = c.Write([]byte("x")); errors.Is(err, unix.EPERM) == passes {
					t.Errorf("to %s: %v", to, err)
				}
				return nil
			})
		}
		if n, err := tables.Dropped(context.Background()); n != 2 || err != nil {
			t.Errorf("dropped %d, %v", n, err)
		}
		sync(t, h, tables, firewall.Rules{}, true)
	})
}

func TestDroppedCountsOurRulesAlone(t *testing.T) {
	const saved = `*mangle
:POSTROUTING ACCEPT [5:300]
:TULLE-CONFINE - [0:0]
[7:420] -A POSTROUTING -m comment --comment tulle -j TULLE-CONFINE
[3:180] -A TULLE-CONFINE -d 10.244.3.0/24 -j RETURN
[4:240] -A TULLE-CONFINE -d 10.244.0.0/16 ! -o tulle-wg -j DROP
[9:540] -A TULLE-CONFINED -j DROP
[x:1] -A TULLE-CONFINE -j DROP
COMMIT
`
	if n, err := dropped(strings.NewReader(saved), mangle.chain); n != 4 || err != nil {
		t.Errorf("got %d, %v", n, err)
	}
}
