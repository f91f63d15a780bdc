package extension

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/tulle-net/tulle/backend"
	"github.com/tulle-net/tulle/backend/backendtest"
	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/subnet"
)

const whole = `"PreStartupCommand": "prepare", "PostStartupCommand": "post", "SubnetAddCommand": "add \"$SUBNET\"", "SubnetRemoveCommand": "remove"`

func parseConfig(t *testing.T, families, keys string) subnet.Config {
	t.Helper()
	cfg, err := subnet.ParseConfig(fmt.Appendf(nil, `{%s, "Backend": {"Type": "extension", %s}}`, families, keys))
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// host returns a host whose PreStartupCommand prints output.
func host(output string) backend.HostFacts {
	h := backendtest.Host()
	h.Prepare = func(string, time.Duration) (string, error) { return output, nil }
	return h
}

func build(t *testing.T, families, keys string, h backend.HostFacts) backend.Backend {
	t.Helper()
	for f := range h.Uplinks {
		if !strings.Contains(families, []string{`"Network"`, `"IPv6Network"`}[f]) {
			h.Uplinks[f] = backend.Uplink{}
		}
	}
	b, err := New(parseConfig(t, families, keys), h)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// command returns the only command of objects.
func command(t *testing.T, objects []netstate.Object) netstate.Command {
	t.Helper()
	var found []netstate.Command
	for _, o := range objects {
		if c, is := o.(netstate.Command); is {
			found = append(found, c)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d commands in %v", len(found), objects)
	}
	return found[0]
}

func lease(t *testing.T, key string, ips ...string) subnet.Lease {
	t.Helper()
	return backendtest.Lease(t, key, subnet.Attrs{PublicIP: backendtest.Addresses(ips...), BackendType: Type})
}

// TestVariablesAreFlannels compares the variables with what flannel sets, by families.
func TestVariablesAreFlannels(t *testing.T) {
	for name, test := range map[string]struct {
		families, own, peer string
		at                  []string
		post, add           string
		subnet              string
	}{
		"IPv4": {
			backendtest.V4, "10.5.1.0-24", "10.5.2.0-24", []string{"198.18.0.2", "fd00:18::2"},
			"NETWORK=10.5.0.0/16 SUBNET=10.5.1.0/24 IPV6SUBNET=::/0 PUBLIC_IP=198.18.0.1 PUBLIC_IPV6=<nil>",
			"SUBNET=10.5.2.0/24 PUBLIC_IP=198.18.0.2", "10.5.2.0/24",
		},
		"both": {
			backendtest.Dual, "10.5.1.0-24&fd00:5:0:1::-64", "10.5.2.0-24&fd00:5:0:2::-64", []string{"198.18.0.2", "fd00:18::2"},
			"NETWORK=10.5.0.0/16 SUBNET=10.5.1.0/24 IPV6SUBNET=fd00:5:0:1::/64 PUBLIC_IP=198.18.0.1 PUBLIC_IPV6=fd00:18::1",
			"SUBNET=10.5.2.0/24 PUBLIC_IP=198.18.0.2 IPV6SUBNET=fd00:5:0:2::/64 PUBLIC_IPV6=fd00:18::2", "10.5.2.0/24",
		},
		"IPv6": {
			backendtest.V6, "fd00:5:0:1::-64", "fd00:5:0:2::-64", []string{"198.18.0.2", "fd00:18::2"},
			"NETWORK=0.0.0.0/0 SUBNET=0.0.0.0/0 IPV6SUBNET=fd00:5:0:1::/64 PUBLIC_IP=0.0.0.0 PUBLIC_IPV6=fd00:18::1",
			"SUBNET=0.0.0.0/0 PUBLIC_IP=198.18.0.2 IPV6SUBNET=fd00:5:0:2::/64 PUBLIC_IPV6=fd00:18::2", "fd00:5:0:2::/64",
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := build(t, test.families, whole, host("data"))
			own := lease(t, test.own)
			post := command(t, b.Host(own))
			want := netstate.Command{Name: "PostStartupCommand", Run: "post", Env: strings.ReplaceAll(test.post, " ", "\n"), Limit: 30 * time.Second}
			if post != want {
				t.Errorf("the host has\n%+v, want\n%+v", post, want)
			}
			objects, err := b.Peer(own, lease(t, test.peer, test.at...), backend.PlainMetrics)
			if err != nil {
				t.Fatal(err)
			}
			want = netstate.Command{
				Name: "SubnetAddCommand", Subnet: netip.MustParsePrefix(test.subnet), Run: `add "$SUBNET"`, Undo: "remove",
				Env: strings.ReplaceAll(test.add, " ", "\n"), Limit: 30 * time.Second,
			}
			if add := command(t, objects); add != want {
				t.Errorf("the peer has\n%+v, want\n%+v", add, want)
			}
		})
	}
}

// TestHostileDataIsOnlyInput publishes what attacks a shell, and looks where it goes.
func TestHostileDataIsOnlyInput(t *testing.T) {
	b := build(t, backendtest.V4, whole, host(""))
	own := lease(t, "10.5.1.0-24")
	for _, text := range []string{
		"$(reboot)", "`reboot`", "'; reboot; '", `"; reboot; "`, "a\nb\n", "a\x00b", "-n", "SUBNET=0.0.0.0/0", "\\", "\x1b]0;x\x07", strings.Repeat("x", 16<<10),
	} {
		data, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		peer := lease(t, "10.5.2.0-24", "198.18.0.2")
		peer.BackendData[subnet.IPv4] = string(data)
		objects, err := b.Peer(own, peer, backend.PlainMetrics)
		if err != nil {
			t.Fatal(err)
		}
		c := command(t, objects)
		if c.Stdin != text {
			t.Errorf("%.20q arrives as %.20q", text, c.Stdin)
		}
		if c.Run != `add "$SUBNET"` || c.Undo != "remove" || c.Env != "SUBNET=10.5.2.0/24\nPUBLIC_IP=198.18.0.2" {
			t.Errorf("%.20q changed the command to %+v", text, c)
		}
		if said := c.String(); strings.Contains(said, "reboot") || len(said) > 200 {
			t.Errorf("a log has %.200q", said)
		}
	}
}

func TestUnusablePeers(t *testing.T) {
	b := build(t, backendtest.V4, whole, host(""))
	own := lease(t, "10.5.1.0-24")
	for data, why := range map[string]error{
		`{"VNI":1}`: backend.ErrBackendData, `7`: backend.ErrBackendData, `["x"]`: backend.ErrBackendData,
		`"` + strings.Repeat("x", 1<<20) + `"`: backend.ErrBackendData,
	} {
		peer := lease(t, "10.5.2.0-24", "198.18.0.2")
		peer.BackendData[subnet.IPv4] = data
		if objects, err := b.Peer(own, peer, backend.PlainMetrics); !errors.Is(err, why) || objects != nil || len(err.Error()) > 300 {
			t.Errorf("%.40s: %v, %v", data, objects, err)
		}
	}
	if objects, err := b.Peer(own, lease(t, "10.5.2.0-24"), backend.PlainMetrics); !errors.Is(err, backend.ErrNoPublicIP) || objects != nil {
		t.Errorf("a peer without an address has %v, %v", objects, err)
	}
	for _, data := range []string{"", "null", `""`} {
		peer := lease(t, "10.5.2.0-24", "198.18.0.2")
		peer.BackendData[subnet.IPv4] = data
		objects, err := b.Peer(own, peer, backend.PlainMetrics)
		if err != nil || command(t, objects).Stdin != "" {
			t.Errorf("%q: %v, %v", data, objects, err)
		}
	}
}

// TestPublishesAsFlannel compares the data with what flannel writes.
func TestPublishesAsFlannel(t *testing.T) {
	for _, test := range []struct{ keys, output, want string }{
		{whole, "3a:00:00:00:00:01", `"3a:00:00:00:00:01"`},
		{whole, "", `""`},
		{whole, "two\nlines \"quoted\"", `"two\nlines \"quoted\""`},
		{`"SubnetAddCommand": "add"`, "", ""},
	} {
		a := build(t, backendtest.Dual, test.keys, host(test.output)).Publish()
		if a.BackendType != "extension" || a.BackendData != (subnet.Pair[string]{test.want}) {
			t.Errorf("output %q of %s is published as %q", test.output, test.keys, a.BackendData)
		}
	}
	if a := build(t, backendtest.V6, whole, host("x")).Publish(); a.BackendData != (subnet.Pair[string]{subnet.IPv6: `"x"`}) {
		t.Errorf("with IPv6 alone it publishes %q", a.BackendData)
	}
}

func TestWaitsForPreStartupCommand(t *testing.T) {
	h := host("")
	h.Prepare = func(text string, limit time.Duration) (string, error) {
		if text != "prepare" || limit != 30*time.Second {
			t.Errorf("asked to run %q for %s", text, limit)
		}
		return "", netstate.ErrUnfinished
	}
	if _, err := New(parseConfig(t, backendtest.V4, whole), h); !errors.Is(err, netstate.ErrUnfinished) {
		t.Errorf("the backend is made with %v", err)
	}
}

func TestConfig(t *testing.T) {
	for keys, refused := range map[string]string{
		`"subnetaddcommand": "x"`: "", `"CommandTimeout": 600`: "", `"MTU": 1400`: "",
		`"CommandTimeout": 0`: "Backend.CommandTimeout", `"CommandTimeout": 601`: "Backend.CommandTimeout", `"CommandTimeout": "x"`: "Backend.CommandTimeout",
		`"SubnetAddCommand": " "`: "Backend.SubnetAddCommand", `"SubnetAddCommand": ["ip"]`: "Backend.SubnetAddCommand",
		`"PreStartupCommand": "a\u0000"`: "Backend.PreStartupCommand", `"MTU": 100`: "Backend.MTU",
	} {
		_, err := New(parseConfig(t, backendtest.V4, keys), host(""))
		var config *subnet.ConfigError
		switch {
		case refused == "" && err != nil:
			t.Errorf("%s: %v", keys, err)
		case refused != "" && (!errors.As(err, &config) || config.Key != refused):
			t.Errorf("%s: %v", keys, err)
		}
	}
	if mtu := build(t, backendtest.V4, `"MTU": 1400`, host("")).MTU(); mtu != 1400 {
		t.Errorf("its MTU is %d", mtu)
	}
	if mtu := build(t, backendtest.V4, `"MTU": 9000`, host("")).MTU(); mtu != 1500 {
		t.Errorf("its MTU is %d on a link of 1500", mtu)
	}
}

func TestNoCommandIsNoObject(t *testing.T) {
	b := build(t, backendtest.V4, `"PreStartupCommand": "x"`, host(""))
	objects, err := b.Peer(lease(t, "10.5.1.0-24"), lease(t, "10.5.2.0-24", "198.18.0.2"), backend.PlainMetrics)
	if objects != nil || err != nil {
		t.Errorf("a peer has %v, %v", objects, err)
	}
	for _, o := range b.Host(lease(t, "10.5.1.0-24")) {
		if _, is := o.(netstate.Command); is {
			t.Errorf("the host has %s", o)
		}
	}
}
