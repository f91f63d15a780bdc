package subnet

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
)

// addresses parses public addresses of either family.
func addresses(texts ...string) Pair[netip.Addr] {
	var a Pair[netip.Addr]
	for _, text := range texts {
		ip := netip.MustParseAddr(text)
		a[FamilyOf(ip)] = ip
	}
	return a
}

func TestAttrsRoundTrip(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       Attrs
	}{
		{"flannel's, from its documentation",
			`{"PublicIP":"192.168.64.3","PublicIPv6":null,"BackendType":"vxlan","BackendData":{"VNI":1,"VtepMAC":"c6:d2:32:6f:8f:44"}}`,
			Attrs{PublicIP: addresses("192.168.64.3"), BackendType: "vxlan", BackendData: Pair[string]{`{"VNI":1,"VtepMAC":"c6:d2:32:6f:8f:44"}`}}},
		{"both families",
			`{"PublicIP":"192.0.2.7","PublicIPv6":"2001:db8::7","BackendType":"vxlan","BackendData":{"VNI":1},"BackendV6Data":{"VNI":2}}`,
			Attrs{PublicIP: addresses("192.0.2.7", "2001:db8::7"), BackendType: "vxlan", BackendData: Pair[string]{`{"VNI":1}`, `{"VNI":2}`}}},
		{"IPv6 alone",
			`{"PublicIP":"0.0.0.0","PublicIPv6":"2001:db8::7","BackendType":"vxlan","BackendV6Data":{"VNI":1}}`,
			Attrs{PublicIP: addresses("2001:db8::7"), BackendType: "vxlan", BackendData: Pair[string]{IPv6: `{"VNI":1}`}}},
		{"a backend without data",
			`{"PublicIP":"192.0.2.7","PublicIPv6":null,"BackendType":"host-gw"}`,
			Attrs{PublicIP: addresses("192.0.2.7"), BackendType: "host-gw"}},
		{"nothing",
			`{"PublicIP":"0.0.0.0","PublicIPv6":null}`,
			Attrs{}},
		{"tulle's own",
			`{"PublicIP":"192.0.2.7","PublicIPv6":null,"BackendType":"vxlan","Tulle":{"NodeID":"8f3c","NodeName":"node-7","MTU":1450}}`,
			Attrs{PublicIP: addresses("192.0.2.7"), BackendType: "vxlan", Node: Node{ID: "8f3c", Name: "node-7", MTU: 1450}}},
		{"tulle's own, of an installation",
			`{"PublicIP":"192.0.2.7","PublicIPv6":null,"BackendType":"vxlan","Tulle":{"NodeID":"8f3c","NodeName":"node-7","MTU":1450,"Instance":"0123456789abcdef"}}`,
			Attrs{PublicIP: addresses("192.0.2.7"), BackendType: "vxlan", Node: Node{ID: "8f3c", Name: "node-7", MTU: 1450, Instance: "0123456789abcdef"}}},
		{"a part of tulle's own",
			`{"PublicIP":"192.0.2.7","PublicIPv6":null,"BackendType":"vxlan","Tulle":{"MTU":1450}}`,
			Attrs{PublicIP: addresses("192.0.2.7"), BackendType: "vxlan", Node: Node{MTU: 1450}}},
		{"escaped as Go escapes",
			`{"PublicIP":"192.0.2.7","PublicIPv6":null,"BackendType":"x","BackendData":"\u003ca\u0026b\u003e"}`,
			Attrs{PublicIP: addresses("192.0.2.7"), BackendType: "x", BackendData: Pair[string]{`"\u003ca\u0026b\u003e"`}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := ParseAttrs([]byte(c.text))
			if err != nil || got != c.want {
				t.Errorf("read  %+v, %v\nwant  %+v", got, err, c.want)
			}
			text, err := FormatAttrs(c.want)
			if err != nil || string(text) != c.text {
				t.Errorf("wrote %s, %v\nwant  %s", text, err, c.text)
			}
		})
	}
}

// TestParseAttrsLenient reads what flannel 0.11 to today and other programs write.
func TestParseAttrsLenient(t *testing.T) {
	want := Attrs{PublicIP: addresses("192.0.2.7"), BackendType: "vxlan", BackendData: Pair[string]{`{"VNI":1}`}}
	for name, text := range map[string]string{
		"before there was IPv6":   `{"PublicIP":"192.0.2.7","BackendType":"vxlan","BackendData":{"VNI":1}}`,
		"spaces":                  "{ \"PublicIP\" : \"192.0.2.7\",\n \"BackendType\":\"vxlan\",\"BackendData\": { \"VNI\" : 1 } }",
		"other case":              `{"publicip":"192.0.2.7","BACKENDTYPE":"vxlan","backendData":{"VNI":1}}`,
		"unknown fields":          `{"PublicIP":"192.0.2.7","BackendType":"vxlan","BackendData":{"VNI":1},"Zone":{"a":[]},"Tulle":{"Later":[1]}}`,
		"null for what is absent": `{"PublicIP":"192.0.2.7","PublicIPv6":null,"BackendType":"vxlan","BackendData":{"VNI":1},"BackendV6Data":null,"Tulle":null}`,
		"no IPv6 address":         `{"PublicIP":"192.0.2.7","PublicIPv6":"::","BackendType":"vxlan","BackendData":{"VNI":1}}`,
		"the last of several":     `{"PublicIP":"192.0.2.9","PublicIP":"192.0.2.7","BackendType":"vxlan","BackendData":{"VNI":1}}`,
	} {
		if got, err := ParseAttrs([]byte(text)); err != nil || got != want {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func TestParseAttrsRefuses(t *testing.T) {
	for _, c := range []struct{ text, says string }{
		{``, "not a JSON object"},
		{`rubbish`, "not a JSON object"},
		{`[]`, "not a JSON object"},
		{`{"PublicIP":7}`, "PublicIP is of the wrong kind, number"},
		{`{"PublicIP":""}`, `PublicIP "" is not an address`},
		{`{"PublicIP":"192.0.2"}`, "is not an address"},
		{`{"PublicIP":"2001:db8::7"}`, "is not an IPv4 address"},
		{`{"PublicIP":"::ffff:192.0.2.7"}`, "is not an IPv4 address"},
		{`{"PublicIPv6":"192.0.2.7"}`, "is not an IPv6 address"},
		{`{"PublicIPv6":"::ffff:192.0.2.7"}`, "is not an IPv6 address"},
		{`{"PublicIPv6":"fe80::1%eth0"}`, "is not an IPv6 address"},
		{`{"BackendType":["vxlan"]}`, "BackendType is of the wrong kind, array"},
		{`{"BackendType":"vx\nlan"}`, "is not printable"},
		{"{\"BackendType\":\"\xff\"}", "is not printable"},
		{`{"Tulle":7}`, "Tulle is of the wrong kind, number"},
		{`{"Tulle":{"MTU":"x"}}`, "Tulle.MTU is of the wrong kind, string"},
		{`{"Tulle":{"MTU":-1}}`, "MTU -1 is not between 0 and 65535"},
		{`{"Tulle":{"MTU":65536}}`, "MTU 65536 is not between"},
		{`{"Tulle":{"NodeID":"a\u202eb"}}`, "NodeID"},
		{`{"Tulle":{"Instance":"a\u0007"}}`, "Instance"},
		{`{"Tulle":{"NodeName":"` + strings.Repeat("n", 254) + `"}}`, "254 bytes are more than the 253 allowed"},
		{`{"BackendData":"` + strings.Repeat("x", 1<<20) + `"}`, "more than the 16384 allowed"},
		{strings.Repeat(`{"BackendData":`, 1000), "not a JSON object"},
	} {
		got, err := ParseAttrs([]byte(c.text))
		if !errors.Is(err, ErrValue) || !strings.Contains(err.Error(), c.says) || len(err.Error()) > 300 || got != (Attrs{}) {
			t.Errorf("%.100s: %+v, %v", c.text, got, err)
		}
	}
}

func TestFormatAttrsRefuses(t *testing.T) {
	for name, a := range map[string]Attrs{
		"swapped addresses":   {PublicIP: Pair[netip.Addr]{netip.MustParseAddr("2001:db8::7")}},
		"no JSON":             {BackendData: Pair[string]{`{"VNI":`}},
		"too much":            {BackendData: Pair[string]{`"` + strings.Repeat("x", maxValue) + `"`}},
		"too much together":   {BackendData: Pair[string]{`"` + strings.Repeat("x", maxValue/2) + `"`, `"` + strings.Repeat("x", maxValue/2) + `"`}},
		"too much, escaped":   {BackendData: Pair[string]{`"` + strings.Repeat("<", maxValue/2) + `"`}},
		"an unprintable ID":   {Node: Node{ID: "\x1b[2J"}},
		"an impossible MTU":   {Node: Node{MTU: 1 << 20}},
		"a name beyond DNS's": {Node: Node{Name: strings.Repeat("n", 254)}},
	} {
		if text, err := FormatAttrs(a); !errors.Is(err, ErrValue) {
			t.Errorf("%s: %.100s, %v", name, text, err)
		}
	}
}

func TestParseLease(t *testing.T) {
	l, err := ParseLease("10.5.34.0-24", []byte(`{"PublicIP":"192.0.2.7"}`))
	if want := (Lease{Subnets: subnets("10.5.34.0/24"), Attrs: Attrs{PublicIP: addresses("192.0.2.7")}}); err != nil || l != want {
		t.Errorf("%+v, %v", l, err)
	}
	for key, reason := range map[string]error{"10.5.34.0-24": ErrValue, "10.5.34.0": ErrKey} {
		_, err := ParseLease(key, []byte(`rubbish`))
		var bad *LeaseError
		if !errors.As(err, &bad) || bad.Key != key || !errors.Is(err, reason) {
			t.Errorf("%s: %v", key, err)
		}
	}
}

// TestAsWrittenAgreesWithJSON checks that the fast path reads what tulle and flannel write, with
// the same result.
func TestAsWrittenAgreesWithJSON(t *testing.T) {
	for text, want := range map[string]bool{
		`{"PublicIP":"192.0.2.7","PublicIPv6":null,"BackendType":"vxlan","BackendData":{"VNI":1,"VtepMAC":"c6:d2:32:6f:8f:44"}}`:      true,
		`{"PublicIP":"0.0.0.0","PublicIPv6":"2001:db8::7","BackendType":"mine","BackendV6Data":{"VNI":2}}`:                            true,
		`{"PublicIP":"192.0.2.7","PublicIPv6":null,"BackendType":"host-gw","Tulle":{"NodeID":"8f3c","NodeName":"node-7","MTU":1450}}`: true,
		`{"PublicIP":"192.0.2.7","PublicIPv6":null,"Tulle":{"NodeName":"node-7"}}`:                                                    true,
		`{"PublicIP":"192.0.2.7","PublicIPv6":null,"Tulle":{"NodeID":"8f3c","MTU":1450,"Instance":"01ab"}}`:                           true,
		`{"PublicIP":"192.0.2.7","PublicIPv6":null,"Tulle":{"Instance":"01ab"}}`:                                                      true,
		`{"PublicIP":"192.0.2.7","PublicIPv6":null,"Tulle":{"Instance":"01ab","MTU":1450}}`:                                           false,
		`{"PublicIP":"192.0.2.7","PublicIPv6":null,"Tulle":{}}`:                                                                       true,
		`{"PublicIP":"192.0.2.7"}`: true,
		``:                         false, `{}`: false, `{"PublicIP":7}`: false, `{"PublicIP":"x"}`: false, `{"PublicIP":"192.0.2.7"} `: false,
		`{"PublicIP":"192.0.2.7","PublicIPv6":null,"BackendType":"a\u0062"}`:                  false,
		`{"PublicIP":"192.0.2.7","PublicIPv6":null,"BackendData":{"a":"}"}}`:                  false,
		`{"PublicIP":"192.0.2.7","PublicIPv6":null,"BackendData":{"a": 1}}`:                   false,
		`{"PublicIP":"192.0.2.7","PublicIPv6":null,"BackendData":{a}}`:                        false,
		`{"PublicIP":"192.0.2.7","PublicIPv6":null,"BackendType":"<"}`:                        false,
		`{"PublicIP":"192.0.2.7","PublicIPv6":null,"Tulle":{"MTU":01450}}`:                    false,
		`{"PublicIP":"192.0.2.7","PublicIPv6":null,"Tulle":{"MTU":}}`:                         false,
		`{"PublicIP":"192.0.2.7","PublicIPv6":null,"Tulle":{"NodeID":"a","NodeID":"b"}}`:      false,
		`{"PublicIP":"192.0.2.7","PublicIPv6":null,"Tulle":{"NodeID":"a"},"BackendType":"x"}`: false,
	} {
		quick, ok := asWritten([]byte(text))
		if ok = ok && quick.Validate() == nil; ok != want {
			t.Errorf("%s: %t", text, ok)
		}
		if slow, err := parseAttrs([]byte(text)); ok && (err != nil || slow != quick) {
			t.Errorf("%s is %+v, or %+v, %v", text, quick, slow, err)
		}
	}
}

// TestAppendAttrs checks that the fast path writes what encoding/json writes, and takes
// all that tulle and flannel publish.
func TestAppendAttrs(t *testing.T) {
	data := Pair[string]{`{"VNI":1,"VtepMAC":"c6:d2:32:6f:8f:44"}`}
	for name, c := range map[string]struct {
		a     Attrs
		quick bool
	}{
		"nothing":                 {Attrs{}, true},
		"flannel's":               {Attrs{PublicIP: addresses("192.168.64.3"), BackendType: "vxlan", BackendData: data}, true},
		"both families":           {Attrs{PublicIP: addresses("192.0.2.7", "2001:db8::7"), BackendType: "vxlan", BackendData: Pair[string]{`{}`, `{"VNI":2}`}}, true},
		"a name and MTU":          {Attrs{Node: Node{Name: "node-7", MTU: 1450}}, true},
		"an installation":         {Attrs{Node: Node{ID: "8f3c", Instance: "0123456789abcdef"}}, true},
		"no object":               {Attrs{BackendData: Pair[string]{`7`}}, false},
		"half an object's marks":  {Attrs{BackendData: Pair[string]{`"}"`}}, false},
		"spaces":                  {Attrs{BackendData: Pair[string]{`{"VNI": 1}`}}, false},
		"an object in another":    {Attrs{BackendData: Pair[string]{`{"a":{}}`}}, false},
		"an escape":               {Attrs{BackendData: Pair[string]{`{"a":"\u0041"}`}}, false},
		"a quote":                 {Attrs{Node: Node{Name: `a"b`}}, false},
		"a backslash":             {Attrs{Node: Node{Name: `a\b`}}, false},
		"a character of HTML":     {Attrs{Node: Node{Name: "a<b"}}, false},
		"a character beyond DEL":  {Attrs{Node: Node{Name: "ü"}}, false},
		"a space in a name":       {Attrs{Node: Node{Name: "a b"}}, false},
		"a brace in a type":       {Attrs{BackendType: "}"}, false},
		"HTML in backend's data":  {Attrs{BackendData: Pair[string]{IPv6: `{"PublicKey":"<&>"}`}}, false},
		"an array in other data":  {Attrs{BackendData: Pair[string]{IPv6: `[1]`}}, false},
		"a type and no node":      {Attrs{BackendType: "host-gw"}, true},
		"IPv6 alone, and an MTU":  {Attrs{PublicIP: addresses("2001:db8::7"), Node: Node{MTU: 1}}, true},
		"an ID, MTU and Instance": {Attrs{Node: Node{ID: "a", MTU: 65535, Instance: "b"}}, true},
	} {
		if _, quick := appendWritten(nil, c.a); quick != c.quick {
			t.Errorf("%s: %t", name, quick)
		}
		want, err := formatAttrs(c.a)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := AppendAttrs([]byte("before "), c.a); err != nil || string(got) != "before "+string(want) {
			t.Errorf("%s: %s, %v\nwant %s", name, got, err, want)
		}
	}
	b := []byte("before")
	if got, err := AppendAttrs(b, Attrs{BackendData: Pair[string]{`{`}}); !errors.Is(err, ErrValue) || string(got) != "before" {
		t.Errorf("%s, %v", got, err)
	}
}

func FuzzParseAttrs(f *testing.F) {
	for _, text := range []string{
		`{"PublicIP":"192.0.2.7","PublicIPv6":null,"BackendType":"vxlan","BackendData":{"VNI":1,"VtepMAC":"c6:d2:32:6f:8f:44"}}`,
		`{"PublicIP":"0.0.0.0","PublicIPv6":"2001:db8::7","BackendType":"wireguard","BackendV6Data":{"PublicKey":"<&>","Port":51820}}`,
		`{"Tulle":{"NodeID":"8f3c","NodeName":"node-7","MTU":1450,"Instance":"0123456789abcdef"}}`,
		`{"BackendData":[1,2,{"a":null}]}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if quick, ok := asWritten(data); ok && quick.Validate() == nil {
			if slow, err := parseAttrs(data); err != nil || slow != quick {
				t.Fatalf("%+v is read, or\n%+v, %v", quick, slow, err)
			}
		}
		a, err := ParseAttrs(data)
		if err != nil {
			if !errors.Is(err, ErrValue) || a != (Attrs{}) {
				t.Fatalf("%+v, %#v", a, err)
			}
			return
		}
		if quick, ok := appendWritten(nil, a); ok {
			if slow, err := formatAttrs(a); err != nil || string(slow) != string(quick) {
				t.Fatalf("%+v is written\n%s, or\n%s, %v", a, quick, slow, err)
			}
		}
		text, err := FormatAttrs(a)
		if errors.Is(err, ErrValue) && len(data) > maxValue/6 {
			return // escapes made it too long
		}
		if err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		if again, err := ParseAttrs(text); err != nil || again != a {
			t.Fatalf("%+v\ncame back as\n%+v, %v", a, again, err)
		}
	})
}
