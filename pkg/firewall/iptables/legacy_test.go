package iptables

import (
	"strings"
	"testing"

	"github.com/tulle-net/tulle/pkg/firewall"
	"github.com/tulle-net/tulle/subnet"
)

// TestLegacyTables checks that no command runs as long as no legacy table is in use.
// After that, the rules are kept like those of Tables.
func TestLegacyTables(t *testing.T) {
	h := newHost(t)
	legacy := OpenLegacy(h.Options)
	forward := everything()
	forward.Masquerade = subnet.Pair[bool]{}
	if changed, err := legacy.Sync(t.Context(), forward); changed || err != nil {
		t.Error(changed, err)
	}
	if removed, err := legacy.RemoveFlannel(t.Context()); len(removed) > 0 || err != nil {
		t.Error(removed, err)
	}
	if len(h.ran) > 0 {
		t.Errorf("ran %q", h.ran)
	}
	h.sh(t, Legacy, "-P FORWARD DROP")
	h.sh(t, Legacy, flannelRules)
	for _, want := range []bool{true, false} {
		if changed, err := legacy.Sync(t.Context(), forward); changed != want || err != nil {
			t.Error(changed, err)
		}
	}
	if removed, err := legacy.RemoveFlannel(t.Context()); len(removed) != 11 || err != nil {
		t.Error(removed, err)
	}
	if changed, err := legacy.Sync(t.Context(), firewall.Rules{}); !changed || err != nil {
		t.Error(changed, err)
	}
	if saved := h.save(t, Legacy); strings.Contains(saved, "TULLE") || strings.Contains(saved, "FLANNEL") {
		t.Error(saved)
	}
}

func TestLegacyTablesWithoutCommands(t *testing.T) {
	h := newHost(t)
	h.sh(t, Legacy, "-P FORWARD DROP")
	o := scripts(t, nil)
	o.Proc = h.Proc
	if _, err := OpenLegacy(o).Sync(t.Context(), everything()); err == nil || !strings.Contains(err.Error(), "install the package iptables") {
		t.Error(err)
	}
}
