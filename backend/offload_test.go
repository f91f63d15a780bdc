package backend_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/tulle-net/tulle/backend"
	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/subnet"
)

// TestOffload checks that auto sets a device only on a host where checksums were seen
// to break, so that otherwise a person's setting stays. On trial, auto leaves them to
// the interface.
func TestOffload(t *testing.T) {
	d := backend.Devices{subnet.IPv4: {Name: "a4", Kind: "vxlan"}, subnet.IPv6: {Name: "a6", Kind: "vxlan"}}
	for _, c := range []struct {
		offload              backend.Offload
		sound, broken, tried string
	}{
		{"auto", "", "off", "on"}, {"on", "on", "on", "on"}, {"off", "off", "off", "off"},
	} {
		if err := c.offload.Check(); err != nil {
			t.Errorf("%q is refused: %v", c.offload, err)
		}
		for known, want := range map[backend.Checksums]string{
			backend.ChecksumsSound: c.sound, backend.ChecksumsBroken: c.broken, backend.ChecksumsOnTrial: c.tried,
		} {
			h := plainHost()
			h.Checksums = known
			for key, links := range map[string][]string{
				"10.5.1.0-24&fd00:5:0:1::-64": {"a4", "a6"}, "10.5.1.0-24": {"a4"}, "fd00:5:0:1::-64": {"a6"},
			} {
				var expected []netstate.Object
				for _, link := range links {
					if want != "" {
						expected = append(expected, netstate.TxChecksum(link, want))
					}
				}
				got := slices.DeleteFunc(d.Host(lease(t, key), h, c.offload), func(o netstate.Object) bool {
					_, ok := netstate.TxChecksumOf(o.Key().Name)
					return !ok
				})
				if !slices.Equal(got, expected) {
					t.Errorf("%q on a host with checksums %d has %v, want %v", c.offload, known, got, expected)
				}
			}
		}
	}
}

func TestOffloadRefuses(t *testing.T) {
	long := strings.Repeat("\x00", 10000)
	for offload, value := range map[backend.Offload]string{
		"": `""`, "of": `"of"`, "Off": `"Off"`, "true": `"true"`, " on": `" on"`, "\n": `"\n"`,
		backend.Offload(long): `"` + strings.Repeat(`\x00`, 80) + `"`,
	} {
		var refusal *subnet.ConfigError
		if err := offload.Check(); !errors.As(err, &refusal) {
			t.Errorf("%.20q: got error %v", offload, err)
			continue
		}
		if refusal.Key != "Backend.Offload" || refusal.Value != value || refusal.Why == "" || !strings.Contains(refusal.Fix, `"off"`) {
			t.Errorf("%.20q is refused with %#v", offload, refusal)
		}
	}
}
