package iptables

import (
	"slices"
	"testing"

	"github.com/tulle-net/tulle/pkg/firewall"
	"github.com/tulle-net/tulle/subnet"
)

// TestConfineWritesAChain writes it once, also where nothing else is wanted, restores it,
// and removes it.
func TestConfineWritesAChain(t *testing.T) {
	bothKinds(t, func(t *testing.T, h *host, k Kind) {
		tables := h.tables(t, k)
		r := everything()
		r.Confined = subnet.Pair[string]{"tulle-wg", "tulle6-wg"}
		alone := firewall.Rules{Networks: r.Networks, Own: r.Own, Confined: r.Confined}
		want := subnet.Pair[[]string]{
			{"-d 10.244.3.0/24 -j RETURN", "-d 10.244.0.0/16 ! -o tulle-wg -j DROP"},
			{"-d fd00:244:0:3::/64 -j RETURN", "-d fd00:244::/48 ! -o tulle6-wg -j DROP"},
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
