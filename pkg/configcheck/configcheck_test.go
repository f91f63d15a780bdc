package configcheck

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

var backends = map[string][]string{
	"alloc": nil, "host-gw": nil, "ipip": {"DirectRouting", "Offload"},
	"vxlan": {"VNI", "Port", "GBP", "Learning", "DirectRouting", "MTU", "Offload"},
}

// TestCheck checks the warning for each kind of key without effect.
func TestCheck(t *testing.T) {
	for _, c := range []struct {
		config string
		want   []string // code and text
	}{
		{`{"Network":"10.5.0.0/16"}`, nil},
		{`{"network":"10.5.0.0/16","BACKEND":{"TYPE":"VXLAN","vni":7}}`, nil},
		{`{"Network":"10.5.0.0/16","IPv6Network":null}`, nil},
		{`{"Network":"10.5.0.0/16","EnableIPv6":true,"IPv6Network":"fd00:5::/48","IPv6SubnetLen":64}`, nil},
		{`{"Network":"10.5.0.0/16","Bakend":{"Type":"host-gw"}}`, []string{"unknown-key Bakend: unknown key; did you mean Backend?"}},
		{`{"Network":"10.5.0.0/16","Colour":1}`, []string{"unknown-key Colour: unknown key; remove it"}},
		{`{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan","DirectRoutng":true}}`,
			[]string{"unknown-key Backend.DirectRoutng: unknown key of vxlan; did you mean Backend.DirectRouting?"}},
		{`{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan","PSK":"sesame"}}`, []string{"unknown-key Backend.PSK: unknown key of vxlan; remove it"}},
		{`{"Network":"10.5.0.0/16","MTU":1400}`,
			[]string{`misplaced-key MTU: no effect here; move it into Backend: {"Backend": {"Type": "vxlan", "MTU": …}}`}},
		{`{"Network":"10.5.0.0/16","directrouting":true,"Backend":{"Type":"alloc"}}`,
			[]string{`misplaced-key directrouting: no effect here; move it into Backend: {"Backend": {"Type": "ipip", "DirectRouting": …}}`}},
		{`{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan","SubnetLen":25}}`,
			[]string{"misplaced-key Backend.SubnetLen: no effect inside Backend; move it out of Backend"}},
		{`{"Network":"10.5.0.0/16","IPv6Network":"fd00:5::/48","IPv6SubnetLen":64}`, []string{
			`no-effect IPv6Network: no effect while IPv6 is off; add "EnableIPv6": true, or remove the key`,
			`no-effect IPv6SubnetLen: no effect while IPv6 is off; add "EnableIPv6": true, or remove the key`,
		}},
		{`{"EnableIPv4":false,"Network":"10.5.0.0/16","EnableIPv6":true,"IPv6Network":"fd00:5::/48"}`,
			[]string{`no-effect Network: no effect while IPv4 is off; remove "EnableIPv4": false, or the key`}},
		{`{"Network":"10.5.0.0/16","Backend":{"Type":"host-gw","vni":1}}`, []string{"no-effect Backend.VNI: no effect with host-gw; remove it; it is a key of vxlan"}},
		{`{"Network":"10.5.0.0/16","Backend":{"Type":"alloc","DirectRouting":true}}`,
			[]string{"no-effect Backend.DirectRouting: no effect with alloc; remove it; it is a key of ipip and vxlan"}},
		{`{"Network":"10.5.1.3/16"}`, []string{"host-bits Network: no effect of the bits after the prefix in 10.5.1.3/16; write 10.5.0.0/16"}},
		{`{"Network":"10.5.0.0/16","network":"10.6.0.0/16","Backend":{"Type":"vxlan","VNI":1,"VNI":2,"vni":3}}`, []string{
			"duplicate-key network: more than once; the last one counts; keep one",
			"duplicate-key Backend.VNI: more than once; the last one counts; keep one",
		}},
		{`{"Network":"10.5.0.0/16","EnableIPv6":false,"enableipv6":true,"IPv6Network":"fd00:5::/48"}`,
			[]string{"duplicate-key enableipv6: more than once; the last one counts; keep one"}},
		// What tulled refuses.
		{`{"Netwrok":"10.5.0.0/16"}`, []string{"unknown-key Netwrok: unknown key; did you mean Network?"}},
		{`{"Network":"10.5.0.0/16","Bakend":{},`, []string{"unknown-key Bakend: unknown key; did you mean Backend?"}},
		{`{"Network":"10.5.0.0/16","Backend":{"Type":"pigeon","VNI":1}}`, nil},
		{`[]`, nil}, {``, nil}, {`null`, nil}, {`{"Backend":7}`, nil},
		{"{\"\\u001b[31m" + strings.Repeat("x", 100) + `":1}`, []string{`unknown-key "\x1b[31m` + strings.Repeat("x", 55) + `…": unknown key; remove it`}},
	} {
		var got []string
		for _, w := range Check([]byte(c.config), backends) {
			got = append(got, fmt.Sprintf("%s %s", w.Code, w))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s:\ngot  %q\nwant %q", c.config, got, c.want)
		}
	}
}

// FuzzCheck: whatever the config, each warning is whole, short and printable.
func FuzzCheck(f *testing.F) {
	for _, config := range []string{
		`{"Network":"10.5.1.3/16","IPv6Network":"fd00:5::/48","MTU":1,"Bakend":{},"network":null,"Backend":{"Type":"host-gw","VNI":1,"x":[{}],"SubnetLen":2}}`,
		`{"a":1`, `{"Backend":{"Backend":{"Backend":{}}}}`, "{\"\\ud800\":0}", `{"":0,"":0}`,
	} {
		f.Add([]byte(config))
	}
	f.Fuzz(func(t *testing.T, config []byte) {
		for _, w := range Check(config, backends) {
			text := w.String()
			if !slices.Contains(Codes(), w.Code) || w.Key == "" || w.Why == "" || w.Fix == "" {
				t.Fatalf("not whole: %+v", w)
			}
			if len(text) > 1000 || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\u202e' }) {
				t.Fatalf("not for a terminal: %q", text)
			}
		}
	})
}
