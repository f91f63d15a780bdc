package iptables

import (
	"slices"
	"strings"
	"testing"
)

// flannelRules are rules as flannel writes them: present ones, and those of versions
// without chains of their own.
const flannelRules = `
	-t nat -N FLANNEL-POSTRTG
	-t nat -A POSTROUTING -m comment --comment "flanneld masq" -j FLANNEL-POSTRTG
	-t nat -A FLANNEL-POSTRTG -m mark --mark 0x4000/0x4000 -m comment --comment "flanneld masq" -j RETURN
	-t nat -A FLANNEL-POSTRTG -s 10.244.3.0/24 -d 10.244.0.0/16 -m comment --comment "flanneld masq" -j RETURN
	-t nat -A FLANNEL-POSTRTG -s 10.244.0.0/16 -d 10.244.3.0/24 -m comment --comment "flanneld masq" -j RETURN
	-t nat -A FLANNEL-POSTRTG ! -s 10.244.0.0/16 -d 10.244.3.0/24 -m comment --comment "flanneld masq" -j RETURN
	-t nat -A FLANNEL-POSTRTG -s 10.244.0.0/16 ! -d 224.0.0.0/4 -m comment --comment "flanneld masq" -j MASQUERADE --random-fully
	-t nat -A FLANNEL-POSTRTG ! -s 10.244.0.0/16 -d 10.244.0.0/16 -m comment --comment "flanneld masq" -j MASQUERADE --random-fully
	-t nat -N FLANNEL-FWD
	-N FLANNEL-FWD
	-A FORWARD -m comment --comment "flanneld forward" -j FLANNEL-FWD
	-A FLANNEL-FWD -s 10.244.0.0/16 -m comment --comment "flanneld forward" -j ACCEPT
	-A FLANNEL-FWD -d 10.244.0.0/16 -m comment --comment "flanneld forward" -j ACCEPT
	-A FORWARD -s 10.244.0.0/16 -m comment --comment "flanneld forward" -j ACCEPT
	-A FORWARD -d 10.244.0.0/16 -m comment --comment "flanneld forward" -j ACCEPT
	-t nat -A POSTROUTING -s 10.244.0.0/16 -d 10.244.0.0/16 -m comment --comment "flanneld masq" -j RETURN
	-t nat -A POSTROUTING -s 10.244.0.0/16 ! -d 224.0.0.0/4 -m comment --comment "flanneld masq" -j MASQUERADE --random-fully
	-t nat -A POSTROUTING ! -s 10.244.0.0/16 -d 10.244.3.0/24 -m comment --comment "flanneld masq" -j RETURN
	-t nat -A POSTROUTING ! -s 10.244.0.0/16 -d 10.244.0.0/16 -m comment --comment "flanneld masq" -j MASQUERADE --random-fully
`

func TestRemoveFlannel(t *testing.T) {
	bothKinds(t, func(t *testing.T, h *host, k Kind) {
		// These are foreign rules that look like flannel's, or share a chain with it.
		h.sh(t, k, others+`
			-A DOCKER-USER -s 10.244.0.0/16 -m comment --comment "flanneld forward" -j ACCEPT
			-A FORWARD -m comment --comment "instead of flanneld forward" -j ACCEPT
			-t nat -A POSTROUTING -s 10.244.0.0/16 -m comment --comment "flanneld masquerade" -j MASQUERADE
			-N FLANNEL-OTHER
			-A FORWARD -j FLANNEL-OTHER`)
		tables := h.tables(t, k)
		sync(t, h, tables, everything(), true)
		before := h.save(t, k)
		h.sh(t, k, flannelRules)
		six := strings.NewReplacer("10.244.0.0/16", "fd00:244::/48", "10.244.3.0/24", "fd00:244:0:3::/64", "224.0.0.0/4", "ff00::/8").Replace(flannelRules)
		h.sh(t, k, strings.ReplaceAll(six, "\t-", "\tip6tables-"+string(k)+" -"))

		h.ran = nil
		removed, err := tables.RemoveFlannel(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(removed) != 2*11 || h.written() != 2 {
			t.Errorf("removed, with %d commands:\n%s", h.written(), strings.Join(removed, "\n"))
		}
		for _, want := range []string{
			`IPv4 ` + string(k) + ` table nat: -A POSTROUTING -m comment --comment "flanneld masq" -j FLANNEL-POSTRTG`,
			`IPv6 ` + string(k) + ` table filter: chain FLANNEL-FWD with 2 rules`,
		} {
			if !slices.Contains(removed, want) {
				t.Errorf("not among what was removed: %s", want)
			}
		}
		if after := h.save(t, k); after != before {
			t.Errorf("before flannel:\n%s\nafter it:\n%s", before, after)
		}
		h.ran = nil
		if removed, err := tables.RemoveFlannel(t.Context()); err != nil || len(removed) > 0 || h.written() > 0 {
			t.Errorf("again: %q, %v", removed, err)
		}
	})
}

// TestFlannelsChainInUse checks that a chain of flannel's stays, without its rules,
// if a foreign rule leads to it.
func TestFlannelsChainInUse(t *testing.T) {
	bothKinds(t, func(t *testing.T, h *host, k Kind) {
		h.sh(t, k, flannelRules+"-N MINE\n -A MINE -j FLANNEL-FWD")
		tables := h.tables(t, k)
		if _, err := tables.RemoveFlannel(t.Context()); err != nil {
			t.Fatal(err)
		}
		if saved := h.save(t, k); strings.Count(saved, "FLANNEL") != 2 || !strings.Contains(saved, "-A MINE -j FLANNEL-FWD") {
			t.Error(saved)
		}
		if removed, err := tables.RemoveFlannel(t.Context()); err != nil || len(removed) > 0 {
			t.Errorf("again: %q, %v", removed, err)
		}
	})
}
