package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/test/clustertest"
	"github.com/tulle-net/tulle/subnet"
)

// TestFaultsAreNamed injects each fault into a network that works. It waits until
// tulled status names the fault on the host where a person would look. Then it ends the
// fault, and waits until the status no longer names it.
func TestFaultsAreNamed(t *testing.T) {
	t.Parallel()
	w := newNetwork(t, 3, 1, vxlan)
	here, there := w.Hosts[0], w.Hosts[1]
	all := "2 peers probed, all answer"
	w.says(here, all)
	w.says(there, all)

	for _, fault := range []struct {
		name         string
		inject, undo func()
		says         []string
	}{
		{
			"peer down", func() { there.Unplug() }, func() { there.Plug() },
			[]string{"1 FAIL", there.Name, "its host does not answer, neither at " + there.Addr[subnet.IPv4].String()},
		},
		{
			"port filtered",
			func() {
				w.nft(there, "add table inet site; add chain inet site in { type filter hook input priority 0; }; add rule inet site in udp dport 8472 drop")
			},
			func() { w.nft(there, "delete table inet site") },
			[]string{"1 FAIL", there.Name, "its host answers at " + there.Addr[subnet.IPv4].String(), "UDP port 8472 is filtered"},
		},
		{
			"MTU halved", func() { there.Narrow(750) }, func() { there.Narrow(1500) },
			[]string{"1 FAIL", there.Name, "packets of up to 70", "bytes pass, but not of 1450"},
		},
		{
			"route blocked",
			func() {
				here.NS.IP(t, "rule add to "+w.subnetOf(there)+" table 100 priority 10")
				here.NS.IP(t, "route add blackhole default table 100")
			},
			func() { here.NS.IP(t, "rule del priority 10") },
			[]string{"1 FAIL", there.Name, "this host has no route to", "the one through tulle.1 is missing, or another route or rule comes first"},
		},
		{
			"etcd down", func() { w.etcd.Member(0).Stop() }, func() { w.etcd.Member(0).Restart() },
			[]string{"failing:", "etcd"},
		},
		{
			"clock off", func() { w.daemons[here].JumpClock(-time.Hour) }, func() { w.daemons[here].JumpClock(time.Hour) },
			[]string{"this node's clock is 1h0m0s behind most others"},
		},
		{
			"another's clock off", func() { w.daemons[there].JumpClock(time.Minute) }, func() { w.daemons[there].JumpClock(-time.Minute) },
			[]string{"the clock of " + there.Name + " is 1m0s ahead of most others"},
		},
	} {
		t.Logf("%s", fault.name)
		planted := time.Now()
		fault.inject()
		w.says(here, fault.says...)
		t.Logf("%s: named after %.1f s", fault.name, time.Since(planted).Seconds())
		fault.undo()
		w.says(here, all)
		w.silent(here, "FAIL", "clock", "failing:")
	}
}

// TestBrokenChecksumsAreDetected runs a host whose network card breaks the checksums inside tunnels.
// Its daemon detects that, and disables the offload unless the config forbids it.
func TestBrokenChecksumsAreDetected(t *testing.T) {
	t.Parallel()
	w := newNetwork(t, 2, 1, `{"Network": "10.5.0.0/16", "Backend": {"Type": "vxlan", "Offload": "on"}}`)
	here := w.Hosts[0]
	w.says(here, "1 peers probed, all answer")
	here.BreakChecksums()
	w.says(here, "only packets without a checksum get there: this host's network card")
	w.says(w.Hosts[1], "only packets without a checksum come back: that host's network card")
	w.put(configKey, `{"Network": "10.5.0.0/16", "Backend": {"Type": "vxlan", "Offload": "auto"}}`)
	w.says(here, "1 peers probed, all answer")
	w.says(w.Hosts[1], "1 peers probed, all answer")
	w.wantOffload(here, "off")
	w.wantOffload(w.Hosts[1], "on")
}

func (w *world) subnetOf(h *clustertest.Host) string {
	w.t.Helper()
	subnets, err := subnetsOf(h)
	if err != nil {
		w.t.Fatal(err)
	}
	return subnets[subnet.IPv4].String()
}

func (w *world) nft(h *clustertest.Host, commands string) {
	w.t.Helper()
	if out, err := h.NS.Command("nft", commands).CombinedOutput(); err != nil {
		w.t.Fatalf("nft %s: %v: %s", commands, err, out)
	}
}

// says waits until a host's tulled status contains all parts.
func (w *world) says(h *clustertest.Host, words ...string) {
	w.t.Helper()
	w.eventually(func() error {
		out, _ := w.command(h, "status")
		for _, word := range words {
			if !strings.Contains(out, word) {
				return fmt.Errorf("%q is not in\n%s", word, out)
			}
		}
		return nil
	})
}

// silent waits until it contains none of the parts.
func (w *world) silent(h *clustertest.Host, words ...string) {
	w.t.Helper()
	w.eventually(func() error {
		out, _ := w.command(h, "status")
		for _, word := range words {
			if strings.Contains(out, word) {
				return fmt.Errorf("%q is in\n%s", word, out)
			}
		}
		return nil
	})
}
