package e2e

import (
	"os"
	"strings"
	"testing"

	"github.com/tulle-net/tulle/pkg/test/clustertest"
)

// cleanUp runs tulled cleanup on a host.
func (w *world) cleanUp(h *clustertest.Host, flags ...string) (out string, code int) {
	w.t.Helper()
	d := h.Start(tulled, append([]string{"cleanup", "--subnet-file=" + h.SubnetFile, "--state-dir=" + h.StateDir, "--cni-conf-file=" + h.CNIConfFile}, flags...)...)
	code = d.Wait()
	return d.Log(), code
}

// TestCleanupRemovesExactlyOurs checks that tulled cleanup removes everything that
// tulled made and flannel's rules, and nothing else.
func TestCleanupRemovesExactlyOurs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, 1, dualConfig)
	h := w.Hosts[0]
	run := func(line string) string {
		t.Helper()
		out, err := h.NS.Command(strings.Fields(line)...).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v: %s", line, err, out)
		}
		return string(out)
	}
	for _, line := range []string{
		"iptables-nft -P FORWARD DROP", "iptables-nft -A FORWARD -s 192.0.2.0/24 -j ACCEPT", "iptables-nft -t nat -A POSTROUTING -s 192.0.2.0/24 -j MASQUERADE",
		"ip link add mine type vxlan id 9 dstport 9", "ip link add cni0 type bridge", "ip route add 10.9.0.0/16 via 198.18.0.2 proto static",
	} {
		run(line)
	}
	before, rules := h.Kernel(), run("nft --stateless list ruleset")
	for _, host := range w.Hosts {
		w.start(host, "--ip-masq", "--ip-blackhole-route")
	}
	for _, host := range w.Hosts {
		w.daemons[host].WaitLog("Kernel in sync with all peers")
	}
	w.eventually(func() error {
		_, err := os.Stat(h.CNIConfFile)
		return err
	})
	if out, code := w.cleanUp(h); code != 1 || !strings.Contains(out, "tulled is running") {
		t.Errorf("beside the daemon: %d: %s", code, out)
	}
	w.daemons[h].Stop()
	for _, line := range []string{
		"ip link add flannel.1 type vxlan id 1 dstport 4789", "iptables-nft -N FLANNEL-FWD", "iptables-nft -A FORWARD -j FLANNEL-FWD",
	} {
		run(line)
	}
	full, fullRules := h.Kernel(), run("nft --stateless list ruleset")
	out, code := w.cleanUp(h, "--dry-run", "--flannel")
	for _, part := range []string{"would remove link tulle.1", "would remove link tulle6.1", "would remove link flannel.1", "would remove the nftables table inet tulle", "FLANNEL-FWD", "would remove file " + h.SubnetFile, h.CNIConfFile} {
		if code != 0 || !strings.Contains(out, part) {
			t.Errorf("a dry run exits with code %d, and its output lacks %q:\n%s", code, part, out)
		}
	}
	if h.Kernel() != full || run("nft --stateless list ruleset") != fullRules {
		t.Error("a dry run changed something")
	}
	if out, code := w.cleanUp(h); code != 0 || !strings.Contains(out, "removed link tulle.1") || strings.Contains(out, "flannel.1") {
		t.Errorf("%d:\n%s", code, out)
	}
	if out, code := w.cleanUp(h, "--flannel"); code != 0 || !strings.Contains(out, "removed link flannel.1") || !strings.Contains(out, "FLANNEL-FWD") {
		t.Errorf("%d:\n%s", code, out)
	}
	if out, code := w.cleanUp(h, "--output=json"); code != 0 || !strings.Contains(out, `"removed": []`) {
		t.Errorf("cleanup exits with code %d:\n%s", code, out)
	}
	if now := h.Kernel(); now != before {
		t.Errorf("the kernel holds\n%s\nand held before tulled\n%s", now, before)
	}
	if now := run("nft --stateless list ruleset"); now != rules {
		t.Errorf("the rules are\n%s\nand were before tulled\n%s", now, rules)
	}
	for _, path := range []string{h.SubnetFile, h.CNIConfFile} {
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s is still there", path)
		}
	}
	if out, code := w.cleanUp(h, "--flannel"); code != 0 || !strings.Contains(out, "nothing of tulle's") {
		t.Errorf("the second cleanup exits with code %d: %s", code, out)
	}
	// What only looks like ours stays.
	if err := os.WriteFile(h.CNIConfFile, []byte(`{"name": "mine", "plugins": []}`), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, code := w.cleanUp(h); code != 1 || !strings.Contains(out, "left "+h.CNIConfFile+" in place") {
		t.Errorf("with a foreign CNI config, cleanup exits with code %d: %s", code, out)
	}
}

// TestCleanupOfAdopted checks that tulled cleanup removes flannel's device, which
// tulle has adopted, and names it once.
func TestCleanupOfAdopted(t *testing.T) {
	t.Parallel()
	w, h := newAdopted(t)
	w.daemons[h].Stop()
	for _, c := range []struct {
		flags []string
		times int
	}{{[]string{"--dry-run", "--flannel"}, 1}, {nil, 1}, {[]string{"--flannel"}, 0}} {
		if out, code := w.cleanUp(h, c.flags...); code != 0 || strings.Count(out, "link flannel.1") != c.times {
			t.Errorf("%q: %d:\n%s", c.flags, code, out)
		}
	}
	if k := h.Kernel(); strings.Contains(k, "flannel.1") || strings.Contains(k, "proto 84") {
		t.Errorf("the kernel still holds\n%s", k)
	}
}
