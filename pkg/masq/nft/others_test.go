package nft

import (
	"slices"
	"testing"
)

func TestOthersThatDrop(t *testing.T) {
	h := newHost(t)
	h.iptables() // where ours can stand
	h.load(`
table inet mine { chain forward { type filter hook forward priority 0; policy drop; }; }
table inet fine { chain forward { type filter hook forward priority 0; policy accept; }; chain input { type filter hook input priority 0; policy drop; }; }
table inet firewalld { chain filter_FORWARD { type filter hook forward priority 10; policy accept; reject; }; chain other { drop; }; }
table ip6 six { chain f { type filter hook forward priority 5; policy drop; }; }
`)
	o := &Others{Tables: h.Tables}
	got, err := o.droppers()
	want := []string{"inet firewalld filter_FORWARD", "inet mine forward", "ip6 six f"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v", got, err)
	}
	for range 2 {
		if changed, err := o.Sync(t.Context(), dual()); changed || err != nil {
			t.Error(changed, err)
		}
	}
}
