package nft

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tulle-net/tulle/pkg/firewall"
	"github.com/tulle-net/tulle/subnet"
)

func confined() firewall.Rules {
	r := dual()
	r.Confined = subnet.Pair[[2]string]{{"tulle-wg", "tulle-wg2"}, {"tulle6-wg", "tulle6-wg2"}}
	return r
}

// TestConfineWritesAChain writes it once, beside the other chain or alone, restores it, and
// removes it.
func TestConfineWritesAChain(t *testing.T) {
	h := newHost(t)
	h.sync(dual())
	before := h.rules()
	alone := firewall.Rules{Networks: confined().Networks, Own: confined().Own, Confined: confined().Confined}
	for _, r := range []firewall.Rules{confined(), alone, confined()} {
		if !h.sync(r) || h.sync(r) {
			t.Errorf("%+v is not written once", r)
		}
		for _, want := range []string{
			"type filter hook postrouting priority mangle; policy accept;\n\t\tip daddr 10.5.3.0/24 return\n",
			`ip daddr 10.5.0.0/16 oifname "tulle-wg2" return`,
			`ip daddr 10.5.0.0/16 oifname != "tulle-wg" counter drop`,
			"ip6 daddr fd00:5:0:3::/64 return\n",
			`ip6 daddr fd00:5::/48 oifname != "tulle6-wg" counter drop`,
		} {
			if got := h.run("nft --stateless list chain inet tulle confine"); !strings.Contains(got, want) {
				t.Errorf("there is\n%s\nwithout\n%s", got, want)
			}
		}
	}
	for _, hurt := range []string{"flush chain inet tulle confine", "delete chain inet tulle confine", "insert rule inet tulle confine accept"} {
		h.load(hurt + "\n")
		if !h.sync(confined()) || h.sync(confined()) {
			t.Errorf("%s is not undone once", hurt)
		}
	}
	h.sync(dual())
	if after := h.rules(); after != before {
		t.Errorf("there is\n%s\nwhere there was\n%s", after, before)
	}
}

// TestConfineDropsWhatLeavesElsewhere sends a packet each way.
func TestConfineDropsWhatLeavesElsewhere(t *testing.T) {
	h := newHost(t)
	for _, device := range []string{"eth0", "tulle-wg", "tulle-wg2", "cni0"} {
		h.run("ip link add " + device + " type bridge")
		h.run("ip link set " + device + " up")
	}
	h.run("ip addr add 198.18.0.1/24 dev eth0")
	h.run("ip route add 10.5.7.0/24 dev eth0")
	h.run("ip route add 10.5.8.0/24 dev tulle-wg")
	h.run("ip route add 10.5.9.0/24 dev tulle-wg2")
	h.run("ip route add 10.5.3.0/24 dev cni0")
	if _, err := (NAT{h.Tables}).Sync(context.Background(), confined()); err != nil {
		t.Fatal(err)
	}
	for to, want := range map[string]bool{"10.5.7.2": false, "10.5.8.2": true, "10.5.9.2": true, "10.5.3.2": true, "198.18.0.7": true} {
		h.ns.Do(t, func() error {
			c, err := net.Dial("udp", to+":9")
			if err != nil {
				return err
			}
			defer c.Close()
			if _, err = c.Write([]byte("x")); errors.Is(err, unix.EPERM) == want {
				t.Errorf("to %s: %v", to, err)
			}
			return nil
		})
	}
	if n, err := (NAT{h.Tables}).Dropped(context.Background()); n != 1 || err != nil {
		t.Errorf("dropped %d, %v", n, err)
	}
}
