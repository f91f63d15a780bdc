package options

import (
	"testing"

	"github.com/tulle-net/tulle/subnet"
)

func TestSeed(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, ""},
		{[]string{"--etcd-embedded"}, ""},
		{[]string{"--etcd-embedded", "--network=10.5.0.0/16"}, `{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan"}}`},
		{[]string{"--etcd-embedded", "--network=10.5.0.0/16,fd00:5::/48", "--backend=host-gw"},
			`{"Network":"10.5.0.0/16","EnableIPv6":true,"IPv6Network":"fd00:5::/48","Backend":{"Type":"host-gw"}}`},
		{[]string{"--etcd-embedded", "--network=fd00:5::/48"}, `{"EnableIPv4":false,"EnableIPv6":true,"IPv6Network":"fd00:5::/48","Backend":{"Type":"vxlan"}}`},
	} {
		o := parse(t, c.args, nil)
		got := o.Seed()
		if got != c.want {
			t.Errorf("%q:\ngot  %s\nwant %s", c.args, got, c.want)
		}
		if got == "" {
			continue
		}
		cfg, err := subnet.ParseConfig([]byte(got))
		if err != nil {
			t.Fatal(err)
		}
		for f, pool := range cfg.Pools {
			if pool.Network != o.Embedded.Networks[f] {
				t.Errorf("%s: the network is %s", subnet.Family(f), pool.Network)
			}
		}
		if cfg.Backend.Type != o.Embedded.Backend {
			t.Errorf("the backend is %s", cfg.Backend.Type)
		}
	}
}
