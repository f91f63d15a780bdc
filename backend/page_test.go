package backend_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/tulle-net/tulle/backend"
	"github.com/tulle-net/tulle/subnet"
)

// TestBackendsPage checks that the page that compares backends lists all of them,
// with the MTUs of containers.
func TestBackendsPage(t *testing.T) {
	backends := make(map[string]backend.Factory)
	for _, c := range contenders {
		cfg, err := subnet.ParseConfig(fmt.Appendf(nil, `{"Network": "10.5.0.0/16", "Backend": %s}`, c.configs[0]))
		if err != nil {
			t.Fatal(err)
		}
		backends[cfg.Backend.Type] = c.factory
	}
	text, err := os.ReadFile("../Documentation/backends.md")
	if err != nil {
		t.Fatal(err)
	}
	var head, mtus []string
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		switch {
		case len(cells) == len(backends)+1 && cells[0] == "":
			head = cells[1:]
		case strings.HasPrefix(cells[0], "MTU of containers"):
			mtus = cells[1:]
		}
	}
	if len(head) != len(backends) || len(mtus) != len(head) {
		t.Fatalf("the page's table has %q and %q", head, mtus)
	}
	for i, name := range head {
		var of subnet.Pair[int]
		for f, config := range []string{`{"Network": "10.5.0.0/16", "Backend": {"Type": %q}}`, `{"Network": "10.5.0.0/16", "EnableIPv6": true, "IPv6Network": "fd00:5::/48", "Backend": {"Type": %q}}`} {
			cfg, err := subnet.ParseConfig(fmt.Appendf(nil, config, name))
			if err != nil {
				t.Fatal(err)
			}
			up := backend.Uplink{Link: "eth0", MTU: 1500}
			factory, ok := backends[name]
			if !ok {
				t.Fatalf("the page's table has %q, which is no backend", name)
			}
			b, err := factory(cfg, backend.HostFacts{NodeID: "a", Uplinks: subnet.Pair[backend.Uplink]{up, up}})
			if err != nil {
				t.Fatal(err)
			}
			of[f] = b.MTU()
		}
		want := fmt.Sprint(of[0])
		if of[1] != of[0] {
			want += fmt.Sprintf("; %d with IPv6", of[1])
		}
		if mtus[i] != want {
			t.Errorf("%s gives containers %s, and the page says %s", name, want, mtus[i])
		}
	}
}
