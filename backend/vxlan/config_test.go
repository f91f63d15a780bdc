package vxlan

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/tulle-net/tulle/backend"
	"github.com/tulle-net/tulle/subnet"
)

// TestConfig checks which keys a config may have, and their values.
func TestConfig(t *testing.T) {
	for keys, want := range map[string]config{
		``:               {VNI: 1, Port: 8472},
		`, "VNI": 42`:    {VNI: 42, Port: 8472},
		`, "vni": 42`:    {VNI: 42, Port: 8472},
		`, "VNI": null`:  {VNI: 1, Port: 8472},
		`, "VNI": 0`:     {VNI: 0, Port: 8472},
		`, "Port": 4789`: {VNI: 1, Port: 4789},
		`, "Port": 0`:    {VNI: 1, Port: 8472}, // the kernel's choice, as for flannel
		`, "VNI": 16777215, "Port": 65535, "MTU": 65535`: {VNI: 16777215, Port: 65535, MTU: 65535},
		`, "MTU": 0`:                           {VNI: 1, Port: 8472},
		`, "MTU": 1350`:                        {VNI: 1, Port: 8472, MTU: 1350},
		`, "GBP": true`:                        {VNI: 1, Port: 8472, GBP: true},
		`, "Learning": true`:                   {VNI: 1, Port: 8472, Learning: true},
		`, "DirectRouting": true`:              {VNI: 1, Port: 8472, DirectRouting: true},
		`, "directrouting": true, "GBP": null`: {VNI: 1, Port: 8472, DirectRouting: true},
		`, "vNi": 3, "pORT": 4, "gbp": true, "LEARNING": true, "directRouting": true, "mtu": 1400, "offLoad": "off"`: {3, 4, true, true, true, 1400, "off"},
		`, "Offload": "auto"`:                            {VNI: 1, Port: 8472},
		`, "Offload": "on"`:                              {VNI: 1, Port: 8472, Offload: "on"},
		`, "Offload": null`:                              {VNI: 1, Port: 8472},
		`, "VNI": 5, "vni": 6`:                           {VNI: 6, Port: 8472}, // the last counts, as for flannel
		`, "Mystery": {"VNI": 9}, "PSK": "secret"`:       {VNI: 1, Port: 8472},
		`, "MacPrefix": "0E-2A", "Name": "flannel.4096"`: {VNI: 1, Port: 8472}, // Windows' keys
	} {
		if want.Offload == "" {
			want.Offload = backend.OffloadAuto
		}
		got, err := parse(parseConfig(t, dual, keys))
		if got != want || err != nil {
			t.Errorf("%s: %+v, %v; want %+v", keys, got, err, want)
		}
	}
	cfg, err := subnet.ParseConfig([]byte(`{"Network": "10.5.0.0/16"}`))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := parse(cfg); err != nil || got != (config{VNI: 1, Port: 8472, Offload: "auto"}) {
		t.Errorf("without a Backend: %+v, %v", got, err)
	}
}

func TestConfigRefuses(t *testing.T) {
	const number, truth = "whole number", "true or false"
	for _, c := range []struct{ families, keys, key, value, fix string }{
		{dual, `, "VNI": 16777216`, "Backend.VNI", "16777216", "from 0 to 16777215"},
		{dual, `, "VNI": 4294967296`, "Backend.VNI", "4294967296", number},
		{dual, `, "VNI": -1`, "Backend.VNI", "-1", number},
		{dual, `, "VNI": 1.5`, "Backend.VNI", "1.5", number},
		{dual, `, "VNI": "1"`, "Backend.VNI", `"1"`, number},
		{dual, `, "VNI": [1]`, "Backend.VNI", "a list", number},
		{dual, `, "vni": "x"`, "Backend.VNI", `"x"`, number},
		{dual, `, "Port": 65536`, "Backend.Port", "65536", "from 0 to 65535"},
		{dual, `, "Port": -1`, "Backend.Port", "-1", "from 0 to 65535"},
		{dual, `, "Port": "8472"`, "Backend.Port", `"8472"`, "from 0 to 65535"},
		{dual, `, "GBP": 1`, "Backend.GBP", "1", truth},
		{dual, `, "Learning": "yes"`, "Backend.Learning", `"yes"`, truth},
		{dual, `, "DirectRouting": "true"`, "Backend.DirectRouting", `"true"`, truth},
		{dual, `, "Offload": "no"`, "Backend.Offload", `"no"`, `"auto"`},
		{dual, `, "Offload": ""`, "Backend.Offload", `""`, `"on"`},
		{dual, `, "offload": "OFF"`, "Backend.Offload", `"OFF"`, `"off"`},
		{dual, `, "Offload": false`, "Backend.Offload", "", "a text in quotes"},
		{dual, `, "MTU": "1500"`, "Backend.MTU", `"1500"`, number},
		{dual, `, "MTU": -1`, "Backend.MTU", "-1", "from 1350 to 65535, or leave it out"},
		{dual, `, "MTU": 1`, "Backend.MTU", "1", "from 1350"},
		{dual, `, "MTU": 1349`, "Backend.MTU", "1349", "from 1350"},
		{v6, `, "MTU": 1349`, "Backend.MTU", "1349", "from 1350"},
		{v4, `, "MTU": 625`, "Backend.MTU", "625", "from 626 to 65535"},
		{v4, `, "MTU": 65536`, "Backend.MTU", "65536", "from 626 to 65535"},
		{v4, `, "MTU": 1e3`, "Backend.MTU", "1e3", number},
		{v4, `, "MTU": 99999999999999999999`, "Backend.MTU", "99999999999999999999", number},
	} {
		_, err := New(parseConfig(t, c.families, c.keys), testHost())
		var refusal *subnet.ConfigError
		if !errors.As(err, &refusal) {
			t.Errorf("%s: got error %v", c.keys, err)
			continue
		}
		if refusal.Key != c.key || refusal.Value != c.value || !strings.Contains(refusal.Fix, c.fix) || refusal.Why == "" {
			t.Errorf("%s is refused with %#v", c.keys, refusal)
		}
		for _, s := range []string{c.key, c.value, c.fix} {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("%s: %q is not in %q", c.keys, s, err)
			}
		}
	}
	if _, err := New(parseConfig(t, v4, `, "MTU": 626`), testHost()); err != nil {
		t.Errorf("the smallest MTU for IPv4 alone: %v", err)
	}
}

// TestMTU checks that the key sets the size of packets on the wire.
func TestMTU(t *testing.T) {
	for _, c := range []struct {
		families, keys string
		link, want     int
		devices        []int
	}{
		{v4, ``, 1500, 1450, []int{1450}},
		{v6, ``, 1500, 1430, []int{1430}},
		{dual, ``, 1500, 1430, []int{1450, 1430}},
		{dual, ``, 9000, 8930, []int{8950, 8930}},
		{dual, `, "MTU": 1400`, 1500, 1330, []int{1350, 1330}},
		{v4, `, "MTU": 1500`, 1500, 1450, []int{1450}},
		{v4, `, "MTU": 9000`, 9000, 8950, []int{8950}},
		{dual, `, "MTU": 9000`, 1500, 1430, []int{1450, 1430}}, // this host's interface carries no more
		{dual, `, "MTU": 1400`, 0, 1330, []int{1350, 1330}},
		{v4, ``, 626, 576, []int{576}},
		{dual, ``, 1350, 1280, []int{1300, 1280}},
	} {
		h := testHost()
		h.Uplinks[0].MTU, h.Uplinks[1].MTU = c.link, c.link
		b := newBackend(t, c.families, c.keys, h)
		var devices []int
		for _, d := range b.(vxlan).devices {
			if d.Name != "" {
				devices = append(devices, d.MTU)
			}
		}
		if b.MTU() != c.want || b.Publish().Node.MTU != c.want || !slices.Equal(devices, c.devices) {
			t.Errorf("link of %d, %s%s: MTU %d, devices %d; want %d, %d", c.link, c.families, c.keys, b.MTU(), devices, c.want, c.devices)
		}
	}
	for families, link := range map[string]int{v4: 625, v6: 1349, dual: 1349} {
		h := testHost()
		h.Uplinks[0].MTU, h.Uplinks[1].MTU = link, link
		_, err := New(parseConfig(t, families, ``), h)
		if !errors.Is(err, backend.ErrLinkMTU) || !strings.Contains(err.Error(), "eth0") {
			t.Errorf("a link of %d for %s: %v", link, families, err)
		}
	}
}

// TestConfigWithoutHost checks a config without a host.
func TestConfigWithoutHost(t *testing.T) {
	for _, families := range []string{v4, v6, dual} {
		if _, err := New(parseConfig(t, families, ``), backend.HostFacts{}); err != nil {
			t.Errorf("%s: %v", families, err)
		}
	}
}
