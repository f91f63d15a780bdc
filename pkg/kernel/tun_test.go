package kernel

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/netstate"
)

func tunLink(name string) netstate.Link {
	return netstate.Link{Name: name, Kind: netstate.TunnelUDP, MTU: 1472, Group: netstate.Mark, Up: true}
}

// TestTUNOutlivesItsProgram makes a device that no program uses, with what is on it.
func TestTUNOutlivesItsProgram(t *testing.T) {
	ns := kerneltest.NewNS(t, "tun")
	k := open(t, ns)
	link := tunLink("tulle.udp")
	want := netstate.Of(link,
		netstate.Addr{Link: link.Name, Prefix: netip.MustParsePrefix("10.5.34.0/32")},
		netstate.Route{Dst: netip.MustParsePrefix("10.5.0.0/16"), Link: link.Name},
		netstate.Route{Dst: netip.MustParsePrefix("10.5.35.0/24"), Link: link.Name, MTU: 1400},
	)
	apply := func() {
		t.Helper()
		has, err := k.Dump(t.Context(), netstate.Scope{})
		if err != nil {
			t.Fatal(err)
		}
		if err := k.Apply(t.Context(), netstate.Diff(want, has)); err != nil {
			t.Fatal(err)
		}
		if has, err = k.Dump(t.Context(), netstate.Scope{}); err != nil {
			t.Fatal(err)
		}
		if plan := netstate.Diff(want, has); len(plan) > 0 {
			t.Fatalf("still to do:\n%s", plan)
		}
	}
	apply()
	if is := ns.IP(t, "-d link show dev tulle.udp"); !strings.Contains(is, "multi_queue") || !strings.Contains(is, "persist on") || !strings.Contains(is, "qlen 4096") {
		t.Errorf("it is %s", is)
	}

	// One that another program made for itself is replaced.
	ns.IP(t, "link delete tulle.udp")
	ns.IP(t, "tuntap add mode tap name tulle.udp")
	apply()
	ns.IP(t, "link delete tulle.udp")
	ns.IP(t, "tuntap add mode tun name tulle.udp")
	apply()
	want = netstate.Of()
	apply()
}

// TestPeersOfAProgramAreNotTheKernels: a plan for another part of the host fails.
func TestPeersOfAProgramAreNotTheKernels(t *testing.T) {
	k := open(t, kerneltest.NewNS(t, "tun"))
	peer := netstate.UDPPeer{Link: "tulle.udp", Prefix: netip.MustParsePrefix("10.5.35.0/24"), Endpoint: netip.MustParseAddrPort("198.18.0.2:8285")}
	err := k.Apply(t.Context(), netstate.Plan{{Verb: netstate.Create, Object: tunLink("tulle.udp")}, {Verb: netstate.Create, Object: peer}})
	if err == nil || !strings.Contains(err.Error(), "no program moves the link's packets") {
		t.Errorf("it ends with %v", err)
	}
}
