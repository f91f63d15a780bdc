package e2e

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/tulle-net/tulle/subnet"
)

// TestDaemonEnds crashes, stops and upgrades a running daemon. Traffic continues, and
// nothing in etcd or in any kernel changes.
func TestDaemonEnds(t *testing.T) {
	t.Parallel()
	w := newNetwork(t, 3, 1, dualConfig)
	one := w.Hosts[0]
	leases, kernels := w.leases(), w.kernels()
	for _, c := range []struct {
		name string
		end  func()
	}{
		{"killed", func() { w.daemons[one].Kill() }},
		{"stopped", func() {
			if code := w.daemons[one].Stop(); code != 0 {
				t.Errorf("after SIGTERM the daemon exits with code %d", code)
			}
		}},
	} {
		there, back := w.pings(one, w.Hosts[1]), w.pings(w.Hosts[1], one)
		there.more(10)
		c.end()
		there.more(50)
		if now := w.kernels(); now != kernels {
			t.Errorf("with the daemon %s the kernels hold\n%s\nand held\n%s", c.name, now, kernels)
		}
		w.restart(one)
		there.more(50)
		there.wantLost(0)
		back.wantLost(0)
		if now := w.leases(); fmt.Sprint(now) != fmt.Sprint(leases) {
			t.Errorf("after the daemon was %s etcd holds %v, and held %v", c.name, now, leases)
		}
		if now := w.kernels(); now != kernels {
			t.Errorf("after the daemon was %s the kernels hold\n%s\nand held\n%s", c.name, now, kernels)
		}
	}
	// SIGHUP makes the daemon read files again, and disturbs no traffic.
	there := w.pings(one, w.Hosts[1])
	w.daemons[one].Signal(syscall.SIGHUP)
	w.daemons[one].WaitLog("Reloading files, and resyncing the kernel")
	there.more(20)
	there.wantLost(0)
}

// TestPeerGoneMeanwhile deletes a peer's lease while a daemon is down. At its start,
// the daemon removes what that peer left behind, and nothing else.
func TestPeerGoneMeanwhile(t *testing.T) {
	t.Parallel()
	w := newNetwork(t, 3, 1, vxlan)
	one, gone := w.Hosts[0], w.Hosts[2]
	subnets, err := subnetsOf(gone)
	if err != nil {
		t.Fatal(err)
	}
	w.daemons[one].Kill()
	w.daemons[gone].Stop()
	w.delete(leasesKey + w.key(gone))
	if !strings.Contains(one.Kernel(), subnets[subnet.IPv4].String()) {
		t.Fatalf("nothing is left of the peer to sweep:\n%s", one.Kernel())
	}
	pings := w.pings(one, w.Hosts[1])
	w.restart(one)
	w.eventually(func() error {
		if now := one.Kernel(); strings.Contains(now, subnets[subnet.IPv4].Addr().String()) {
			return fmt.Errorf("the kernel holds\n%s", now)
		}
		return nil
	})
	pings.more(20)
	pings.wantLost(0)
}

// TestFilesAreKept deletes and garbles the env file and the CNI config, and fills the
// disk. The daemon restores both as soon as it can.
func TestFilesAreKept(t *testing.T) {
	t.Parallel()
	w := newNetwork(t, 2, 1, dualConfig)
	one := w.Hosts[0]
	files := map[string]string{}
	for _, path := range []string{one.SubnetFile, one.CNIConfFile} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		files[path] = string(text)
	}
	pings := w.pings(one, w.Hosts[1])
	back := func() {
		t.Helper()
		for path, want := range files {
			w.eventually(func() error {
				if text, err := os.ReadFile(path); err != nil || string(text) != want {
					return fmt.Errorf("%s holds %q: %v", path, text, err)
				}
				return nil
			})
		}
	}
	for path := range files {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		back()
		if err := os.WriteFile(path, []byte("garbage\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		back()
	}

	// Deleting the files frees room, so the daemon stays frozen until the disk is full
	// again.
	w.daemons[one].Freeze()
	for path := range files {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	one.FillDisk()
	w.daemons[one].Thaw()
	w.daemons[one].WaitLog("no space left on device")
	one.FreeDisk()
	back()

	// A daemon that starts on a full disk does everything except write files.
	w.daemons[one].Stop()
	one.FillDisk()
	w.restart(one)
	pings.more(20)
	pings.wantLost(0)
	one.FreeDisk()
	back()
}

// TestHostReaddressed gives a host another address while it runs: its peers follow,
// and its subnet stays.
func TestHostReaddressed(t *testing.T) {
	t.Parallel()
	w := newNetwork(t, 3, 1, dualConfig)
	one := w.Hosts[0]
	key := w.key(one)
	one.Readdress(77)
	w.eventually(func() error {
		leases, err := w.readLeases()
		if err != nil || !strings.Contains(leases[key], `"PublicIP":"198.18.0.77"`) || !strings.Contains(leases[key], `"PublicIPv6":"fd00:18::4d"`) {
			return fmt.Errorf("the lease %s is %s: %v", key, leases[key], err)
		}
		return nil
	})
	w.Matrix()
	if now := w.key(one); now != key {
		t.Errorf("the subnet was %s and is %s", key, now)
	}
}

// TestCablePulled unplugs a host's cable and plugs it in again. The kernels then hold
// the same as before.
func TestCablePulled(t *testing.T) {
	t.Parallel()
	w := newNetwork(t, 2, 1, dualConfig)
	one := w.Hosts[0]
	before := w.kernels()
	pings := w.pings(one, w.Hosts[1])
	one.Unplug()
	pings.more(50)
	one.Plug()
	w.Matrix()
	pings.wantLost(1 << 30)
	w.eventually(func() error {
		if now := w.kernels(); now != before {
			return fmt.Errorf("the kernels hold\n%s\nand held\n%s", now, before)
		}
		return nil
	})
}

// TestMTUChanges changes the interface's MTU while the daemon runs. Existing
// containers learn it by ICMP, new ones from the env file.
func TestMTUChanges(t *testing.T) {
	t.Parallel()
	w := newNetwork(t, 2, 1, vxlan)
	one := w.Hosts[0]
	pings := w.pings(one, w.Hosts[1])
	one.NS.IP(t, "link set eth0 mtu 1400")
	w.eventually(func() error {
		text, err := os.ReadFile(one.SubnetFile)
		if err != nil || !strings.Contains(string(text), "FLANNEL_MTU=1350\n") {
			return fmt.Errorf("the env file is %q: %v", text, err)
		}
		return nil
	})
	w.eventually(func() error {
		if link := one.NS.IP(t, "link show tulle.1"); !strings.Contains(link, "mtu 1350") {
			return fmt.Errorf("the device is %s", link)
		}
		return nil
	})
	pings.more(20)
	pings.wantLost(0)
}
