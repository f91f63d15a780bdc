package clustertest

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/tulle-net/tulle/subnet"
)

func TestParseEnv(t *testing.T) {
	for _, test := range []struct {
		text string
		want env
		err  string
	}{
		{text: "FLANNEL_NETWORK=10.5.0.0/16\nFLANNEL_SUBNET=10.5.34.1/24\nFLANNEL_IPV6_NETWORK=fd00:5::/48\nFLANNEL_IPV6_SUBNET=fd00:5:0:22::1/64\nFLANNEL_MTU=1450\nFLANNEL_IPMASQ=true\n",
			want: env{subnets: subnet.Pair[netip.Prefix]{netip.MustParsePrefix("10.5.34.1/24"), netip.MustParsePrefix("fd00:5:0:22::1/64")}, mtu: 1450}},
		{text: "FLANNEL_IPV6_SUBNET=fd00:5:0:22::1/64\nFLANNEL_MTU=1450",
			want: env{subnets: subnet.Pair[netip.Prefix]{subnet.IPv6: netip.MustParsePrefix("fd00:5:0:22::1/64")}, mtu: 1450}},
		{text: "", err: "no subnet"},
		{text: "FLANNEL_SUBNET=10.5.34.1/24\n", err: "no MTU"},
		{text: "FLANNEL_MTU=1450\n", err: "no subnet"},
		{text: "FLANNEL_SUBNET=10.5.34.1\nFLANNEL_MTU=1450\n", err: "FLANNEL_SUBNET: "},
		{text: "FLANNEL_SUBNET=fd00::1/64\nFLANNEL_MTU=1450\n", err: "is not IPv4"},
		{text: "FLANNEL_SUBNET=10.5.34.1/24\nFLANNEL_MTU=big\n", err: "FLANNEL_MTU: "},
		{text: "FLANNEL_SUBNET=10.5.34.1/24\nFLANNEL_MTU=1450x\n", err: "FLANNEL_MTU: "},
		{text: "FLANNEL_SUBNET=10.5.34.1/24\nFLANNEL_MTU=-1\n", err: "no MTU"},
	} {
		got, err := parseEnv([]byte(test.text))
		if test.err == "" && err != nil || test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)) {
			t.Errorf("%q: error %v, want %q", test.text, err, test.err)
		}
		if got != test.want {
			t.Errorf("%q: got %+v, want %+v", test.text, got, test.want)
		}
	}
}

func FuzzParseEnv(f *testing.F) {
	f.Add([]byte("FLANNEL_NETWORK=10.5.0.0/16\nFLANNEL_SUBNET=10.5.34.1/24\nFLANNEL_MTU=1450\n"))
	f.Add([]byte("FLANNEL_IPV6_SUBNET=fd00::1/64\nFLANNEL_MTU=1\n="))
	f.Fuzz(func(t *testing.T, text []byte) {
		e, err := parseEnv(text)
		if err != nil {
			if e != (env{}) {
				t.Errorf("%q: an error and %+v", text, e)
			}
			return
		}
		if e.mtu <= 0 || !e.subnets[subnet.IPv4].IsValid() && !e.subnets[subnet.IPv6].IsValid() {
			t.Errorf("%q: %+v cannot be used", text, e)
		}
	})
}
