package e2e

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/test/clustertest"
)

var steady = flag.Duration("steady", 2*time.Second, "how long TestSteady watches the firewall")

// TestSteady checks that tulled writes nothing to the firewall while nothing changes.
func TestSteady(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ kind, flag string }{{"nft", "--filter=nftables"}, {"legacy", "--filter=iptables"}} {
		t.Run(c.kind, func(t *testing.T) {
			t.Parallel()
			steadily(t, c.kind, c.flag)
		})
	}
}

func steadily(t *testing.T, kind, flag string) {
	f := newFiltered(t, dualConfig, func(h *clustertest.Host) {
		for _, command := range []string{"iptables-" + kind, "ip6tables-" + kind} {
			if out, err := h.NS.Command(command, "-P", "FORWARD", "DROP").CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if out, err := h.NS.Command(command, "-A", "FORWARD", "-p", "icmp", "-j", "ACCEPT").CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
		}
	}, flag)
	f.awaitReady(f.here) // also the firewall
	monitor := f.here.NS.Command("nft", "monitor")
	path := filepath.Join(t.TempDir(), "written")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	monitor.Stdout = file
	if err := monitor.Start(); err != nil {
		t.Fatal(err)
	}
	written := func() string {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	f.eventually(func() error { // it may take some time until nft listens
		if out, err := f.here.NS.Command("nft", "add table inet probe; delete table inet probe").CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		if !strings.Contains(written(), "delete table inet probe") {
			return fmt.Errorf("nft monitor reports nothing: %s", written())
		}
		return nil
	})
	there := f.pings(f.here, f.there)
	there.more(50)
	before := f.daemons[f.here].CPU()
	began := time.Now()
	for range max(1, *steady/time.Second) {
		there.more(100) // which takes a second
	}
	used, long := f.daemons[f.here].CPU()-before, time.Since(began)
	t.Logf("in %s the daemon used %s, %.4f %% of a core", long, used, 100*used.Seconds()/long.Seconds())
	there.wantLost(0)
	if err := monitor.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = monitor.Wait() // it was killed
	for line := range strings.Lines(written()) {
		if !strings.Contains(line, "probe") && !strings.HasPrefix(line, "# new generation") {
			t.Errorf("written to the firewall: %s", line)
		}
	}
}
