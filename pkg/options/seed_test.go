package options

import (
	"slices"
	"testing"

	"github.com/tulle-net/tulle/subnet"
)

// TestSeed checks the first config of an empty etcd.
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

// TestIgnored compares the flags for an empty etcd with its present config.
func TestIgnored(t *testing.T) {
	for _, c := range []struct {
		args, environ []string
		config        string // that etcd has
		want          []string
	}{
		{args: []string{"--network=10.5.0.0/16"}, config: `{"Network":"10.5.0.0/16","Backend":{"Type":"host-gw"}}`},
		{args: []string{"--network=10.5.0.0/16"}, config: `{"Network":"10.5.0.0/16","SubnetLen":25}`},
		{args: []string{"--network=10.5.0.0/16"}, config: `{"Network":"10.6.0.0/16"}`, want: []string{"--network=10.5.0.0/16"}},
		{args: []string{"--network=10.5.0.0/16"}, environ: []string{"TULLED_BACKEND=ipip"}, config: `{"Network":"10.5.0.0/16"}`, want: []string{"TULLED_BACKEND=ipip"}},
		{args: []string{"--network=10.5.0.0/16,fd00:5::/48"}, config: `{"Network":"10.5.0.0/16"}`, want: []string{"--network=10.5.0.0/16,fd00:5::/48"}},
		{config: `{"Network":"10.6.0.0/16"}`},
	} {
		cfg, err := subnet.ParseConfig([]byte(c.config))
		if err != nil {
			t.Fatal(err)
		}
		o := parse(t, append(c.args, "--etcd-embedded"), c.environ)
		if got := o.Ignored(cfg); !slices.Equal(got, c.want) {
			t.Errorf("%q, %q beside %s: got %q, want %q", c.args, c.environ, c.config, got, c.want)
		}
		if got := o.Ignored(subnet.Config{}); got != nil {
			t.Errorf("%q before the config is known: %q", c.args, got)
		}
	}
}
