package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// TestBackendChanges changes the backend's keys under pings. Between tunnel and direct
// routes no packet is lost.
func TestBackendChanges(t *testing.T) {
	t.Parallel()
	w := newNetwork(t, 3, 1, dualConfig)
	pings := func() *streams { return w.pings(w.Hosts[0], w.Hosts[1]) }
	set := func(backend string) {
		t.Helper()
		w.put(configKey, `{"Network": "10.5.0.0/16", "EnableIPv6": true, "IPv6Network": "fd00:5::/48", "Backend": `+backend+`}`)
	}
	reached := func(by string) {
		t.Helper()
		for _, h := range w.Hosts {
			w.eventually(func() error {
				out, _ := w.command(h, "peers")
				if strings.Count(out, " "+by+" ") != 2 || strings.Count(out, "in sync") != 2 {
					return fmt.Errorf("%s does not reach both peers by %s:\n%s", h.Name, by, out)
				}
				return nil
			})
		}
		w.Matrix()
	}
	for _, c := range []struct {
		backend, by string
		lossless    bool
	}{
		{`{"Type": "vxlan", "DirectRouting": true}`, "direct", true},
		{`{"Type": "vxlan"}`, "tunnel", true},
		{`{"Type": "vxlan", "Port": 4789}`, "tunnel", false},
		{`{"Type": "vxlan", "Port": 4789, "VNI": 7}`, "tunnel", false},
	} {
		p := pings()
		p.more(10)
		set(c.backend)
		reached(c.by)
		p.more(10)
		if c.lossless {
			p.wantLost(0)
			continue
		}
		for _, each := range p.each {
			t.Logf("%s: %s", c.backend, each.Stop())
		}
	}
}
