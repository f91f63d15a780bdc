package kube

import (
	"encoding/json"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/tulle-net/tulle/subnet"
)

func TestAnnotationPrefixIsChecked(t *testing.T) {
	for text, want := range map[string]string{
		"flannel.alpha.coreos.com":            "flannel.alpha.coreos.com/backend-type",
		"flannel.alpha.coreos.com/":           "flannel.alpha.coreos.com/backend-type",
		"flannel.alpha.coreos.com/blue":       "flannel.alpha.coreos.com/blue-backend-type",
		"flannel.alpha.coreos.com/blue-":      "flannel.alpha.coreos.com/blue-backend-type",
		"flannel.alpha.coreos.com/blue_x_red": "flannel.alpha.coreos.com/blue_x_red-backend-type",
		"flannel":                             "",
		"":                                    "",
		"a.b/c/d":                             "",
		"A.b":                                 "",
		"a.b\nc.d":                            "",
	} {
		a, err := newAnnotations(text)
		if a.names[backendType] != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", text, a.names[backendType], err)
		}
	}
}

// valuesOf returns annotations as a Node has them.
func valuesOf(all map[string]string) (v values) {
	for f, name := range names {
		if text, ok := all[name]; ok {
			v[f] = []byte(text)
		}
	}
	return v
}

// TestPublishWritesFlannelsBytes checks that annotations are byte for byte flannel's,
// and read back as they were.
func TestPublishWritesFlannelsBytes(t *testing.T) {
	both := subnet.Pair[netip.Addr]{ip("192.0.2.7"), ip("2001:db8::7")}
	four, six := subnet.Pair[netip.Addr]{both[0], {}}, subnet.Pair[netip.Addr]{{}, both[1]}
	vxlan := `{"VNI":1,"VtepMAC":"3a:00:00:00:00:01"}`
	for name, c := range map[string]struct {
		attrs subnet.Attrs
		want  map[string]string
	}{
		"vxlan": {
			subnet.Attrs{PublicIP: four, BackendType: "vxlan", BackendData: subnet.Pair[string]{vxlan}},
			map[string]string{"backend-type": "vxlan", "backend-data": vxlan, "public-ip": "192.0.2.7"},
		},
		"vxlan, both": {
			subnet.Attrs{PublicIP: both, BackendType: "vxlan", BackendData: subnet.Pair[string]{vxlan, vxlan}},
			map[string]string{"backend-type": "vxlan", "backend-data": vxlan, "backend-v6-data": vxlan, "public-ip": "192.0.2.7", "public-ipv6": "2001:db8::7"},
		},
		"vxlan, IPv6 alone": {
			subnet.Attrs{PublicIP: six, BackendType: "vxlan", BackendData: subnet.Pair[string]{"", vxlan}},
			map[string]string{"backend-type": "vxlan", "backend-v6-data": vxlan, "public-ipv6": "2001:db8::7"},
		},
		"host-gw": {
			subnet.Attrs{PublicIP: four, BackendType: "host-gw"},
			map[string]string{"backend-type": "host-gw", "backend-data": "null", "public-ip": "192.0.2.7"},
		},
		"host-gw, both": {
			subnet.Attrs{PublicIP: both, BackendType: "host-gw"},
			map[string]string{"backend-type": "host-gw", "backend-data": "null", "backend-v6-data": "null", "public-ip": "192.0.2.7", "public-ipv6": "2001:db8::7"},
		},
		"data without an address": {
			subnet.Attrs{BackendType: "wireguard", BackendData: subnet.Pair[string]{`{"PublicKey":"x"}`}},
			map[string]string{"backend-type": "wireguard", "backend-data": `{"PublicKey":"x"}`, "public-ip": "0.0.0.0"},
		},
		"ours": {
			subnet.Attrs{PublicIP: four, BackendType: "udp", Node: subnet.Node{ID: "x", Name: "n<1>", MTU: 1450}},
			map[string]string{"backend-type": "udp", "backend-data": "null", "public-ip": "192.0.2.7", "tulle": "{\"NodeID\":\"x\",\"NodeName\":\"n\\u003c1\\u003e\",\"MTU\":1450}"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.want["kube-subnet-manager"] = "true"
			texts, err := publish(c.attrs)
			if err != nil {
				t.Fatal(err)
			}
			got := make(map[string]string)
			for f, text := range texts {
				if text != nil {
					got[names[f]] = *text
				}
			}
			if len(got) != len(c.want) {
				t.Errorf("written %v, want %v", got, c.want)
			}
			for name, text := range c.want {
				if got[name] != text {
					t.Errorf("%s is %q, want %q", name, got[name], text)
				}
			}
			v := valuesOf(got)
			if read, err := v.attrs(); read != c.attrs || err != nil {
				t.Errorf("read %+v, %v, want %+v", read, err, c.attrs)
			}
			a, _ := newAnnotations(prefix)
			if change, err := a.change(texts, &v, "uid"); change != nil || err != nil {
				t.Errorf("what stands there already is written: %s, %v", change, err)
			}
		})
	}
}

func TestChangePatchesOnlyDifferences(t *testing.T) {
	a, err := newAnnotations(prefix)
	if err != nil {
		t.Fatal(err)
	}
	now := valuesOf(map[string]string{
		"kube-subnet-manager": "true", "backend-type": "vxlan", "backend-data": "null", "public-ip": "192.0.2.9", "backend-v6-data": "{}", "public-ip-overwrite": "x",
	})
	want, err := publish(subnet.Attrs{BackendType: "vxlan", PublicIP: subnet.Pair[netip.Addr]{ip("192.0.2.7")}})
	if err != nil {
		t.Fatal(err)
	}
	change, err := a.change(want, &now, "u-1")
	const expected = `{"metadata":{"annotations":{"flannel.alpha.coreos.com/backend-v6-data":null,"flannel.alpha.coreos.com/public-ip":"192.0.2.7"},"uid":"u-1"}}`
	if string(change) != expected || err != nil {
		t.Errorf("%s, %v", change, err)
	}
}

func TestGarbledAnnotationsAreRefused(t *testing.T) {
	good := map[string]string{"kube-subnet-manager": "true", "backend-type": "vxlan", "public-ip": "192.0.2.7", "backend-data": `{"VNI":1}`}
	for _, c := range []struct{ name, text string }{
		{"public-ip", "999.0.0.1"}, {"public-ip", ""}, {"public-ip", "fe80::1"}, {"public-ip", "::ffff:192.0.2.1"},
		{"public-ipv6", "192.0.2.1"}, {"public-ipv6", "fe80::1%eth0"},
		{"backend-data", `{"VNI":`}, {"backend-data", `{} {}`}, {"backend-data", strings.Repeat(" ", longest) + "1"},
		{"backend-v6-data", "x"}, {"backend-type", "vx\nlan"}, {"backend-type", strings.Repeat("x", 300)},
		{"tulle", "x"}, {"tulle", ""}, {"tulle", `{"MTU":"1450"}`}, {"tulle", `{"MTU":-1}`}, {"tulle", `{"NodeID":"\u0007"}`},
	} {
		all := make(map[string]string)
		for name, text := range good {
			all[name] = text
		}
		all[c.name] = c.text
		v := valuesOf(all)
		if a, err := v.attrs(); !errors.Is(err, subnet.ErrValue) {
			t.Errorf("%s %.40q: %+v, %v", c.name, c.text, a, err)
		}
	}
}

func TestParseCIDRsTakesOnePerFamily(t *testing.T) {
	for text, want := range map[string]string{
		"10.5.1.0/24":                   "10.5.1.0-24",
		"fd00:5:0:1::/64,10.5.1.0/24":   "10.5.1.0-24&fd00:5:0:1::-64",
		"10.5.1.0/24,10.5.2.0/24":       "error",
		"10.5.1.1/24":                   "error",
		"::ffff:10.5.1.0/120":           "error",
		"10.5.1.0":                      "error",
		"":                              "error",
		"10.5.1.0/24,fd00::/64,1::1/64": "error",
	} {
		var texts [][]byte
		for _, p := range strings.Split(text, ",") {
			texts = append(texts, []byte(p))
		}
		subnets, err := parseCIDRs(texts)
		if got := subnet.FormatKey(subnets); err == nil && got != want || err != nil && (want != "error" || !errors.Is(err, subnet.ErrKey)) {
			t.Errorf("%s: %s, %v", text, got, err)
		}
	}
	if subnets, err := parseCIDRs(nil); subnets != (subnet.Pair[netip.Prefix]{}) || err != nil {
		t.Errorf("none: %v, %v", subnets, err)
	}
}

// FuzzAnnotations checks that any accepted annotations can be published, and read
// back the same.
func FuzzAnnotations(f *testing.F) {
	f.Add("vxlan", `{"VNI":1,"VtepMAC":"3a:00:00:00:00:01"}`, "null", "192.0.2.7", "2001:db8::7", `{"NodeID":"a","MTU":1450}`, "10.5.1.0/24")
	f.Add("host-gw", "null", "", "0.0.0.0", "::", "{}", "fd00::/64")
	f.Fuzz(func(t *testing.T, kind, data, data6, public, public6, own, cidr string) {
		v := values{managed: []byte("true"), backendType: []byte(kind), backendData: []byte(data), backendV6Data: []byte(data6),
			publicIP: []byte(public), publicIPv6: []byte(public6), ownPart: []byte(own)}
		if subnets, err := parseCIDRs([][]byte{[]byte(cidr)}); err == nil {
			if back, err := subnet.ParseKey(subnet.FormatKey(subnets)); back != subnets || err != nil {
				t.Errorf("%v is read as %v, %v", subnets, back, err)
			}
		}
		a, err := v.attrs()
		if err != nil {
			if !errors.Is(err, subnet.ErrValue) {
				t.Errorf("refused with %v", err)
			}
			return
		}
		texts, err := publish(a)
		if err != nil {
			t.Fatalf("%+v is accepted, and cannot be published: %v", a, err)
		}
		var again values
		for f, text := range texts {
			if text != nil {
				again[f] = []byte(*text)
			}
		}
		if b, err := again.attrs(); b != a || err != nil {
			t.Errorf("%+v comes back as %+v, %v", a, b, err)
		}
		names, _ := newAnnotations(prefix)
		if change, err := names.change(texts, &v, "u"); err != nil || change != nil && !json.Valid(change) {
			t.Errorf("%s, %v", change, err)
		}
	})
}
