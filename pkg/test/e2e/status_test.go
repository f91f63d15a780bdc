package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tulle-net/tulle/pkg/status"
	"github.com/tulle-net/tulle/pkg/test/archivetest"
	"github.com/tulle-net/tulle/pkg/test/clustertest"
	"github.com/tulle-net/tulle/subnet"
)

// command runs one of tulled's commands on a host whose daemon runs.
func (w *world) command(h *clustertest.Host, words ...string) (out string, code int) {
	w.t.Helper()
	args := append([]string{"-t", fmt.Sprint(w.daemons[h].PID), "-m", "-n", "--"}, tulled.Argv...)
	cmd := exec.Command("nsenter", append(args, words...)...)
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0")
	text, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		w.t.Fatal(err)
	}
	return string(text), cmd.ProcessState.ExitCode()
}

// commandJSON decodes the JSON output of a command.
func (w *world) commandJSON(h *clustertest.Host, to any, words ...string) error {
	w.t.Helper()
	out, _ := w.command(h, append(words, "--output=json")...)
	if err := json.Unmarshal([]byte(out), to); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(words, " "), err, out)
	}
	return nil
}

// peersOf returns the peers as a host's daemon sees them.
func (w *world) peersOf(h *clustertest.Host) ([]status.Peer, error) {
	var answer struct{ Peers []status.Peer }
	err := w.commandJSON(h, &answer, "peers")
	return answer.Peers, err
}

// awaitReady waits until a host's daemon is ready and every part is in sync.
func (w *world) awaitReady(h *clustertest.Host) {
	w.t.Helper()
	w.eventually(func() error {
		if out, code := w.command(h, "status"); code != 0 {
			return fmt.Errorf("status of %s exits with code %d: %s", h.Name, code, out)
		}
		return nil
	})
}

// TestStatus requests the status of a daemon that works, and of one that has problems.
func TestStatus(t *testing.T) {
	t.Parallel()
	w := newNetwork(t, 3, 1, dualConfig)
	one, two := w.Hosts[0], w.Hosts[1]
	w.daemons[one].WaitLog("Kernel in sync with all peers")
	w.eventually(func() error {
		out, code := w.command(one, "status")
		for _, part := range []string{"tulled:", "ready, version devel", "host1", "10.5.0.0/16, fd00:5::/48, vxlan, MTU 1430, tulle.1 and tulle6.1", "peers:", " 2\n", "firewall:", "in sync", "kernel:", "in sync", "default route"} {
			if code != 0 || !strings.Contains(out, part) {
				return fmt.Errorf("status exits with code %d, and lacks %q:\n%s", code, part, out)
			}
		}
		return nil
	})
	peers, err := w.peersOf(one)
	if err != nil || len(peers) != 2 || peers[0].By != "tunnel" || !peers[0].InSync || peers[0].Problem != "" {
		t.Errorf("peers are %+v, %v", peers, err)
	}
	if out, code := w.command(one, "peers", "--output=yaml"); code != 0 || !strings.Contains(out, "nodeName: host2") {
		t.Errorf("%d: %s", code, out)
	}
	explains := func(ip, verdict string) {
		t.Helper()
		w.eventually(func() error {
			var e status.Explanation
			if err := w.commandJSON(one, &e, "explain", ip); err != nil {
				return err
			}
			if !strings.Contains(e.Verdict, verdict) {
				return fmt.Errorf("%s is %+v, not %q", ip, e, verdict)
			}
			return nil
		})
	}
	pod := two.Pods[0].Addr
	explains(pod[subnet.IPv4].String(), "in place")
	explains(pod[subnet.IPv6].String(), "in place")
	explains(one.Pods[0].Addr[subnet.IPv4].String(), "this node's own subnet")
	explains("192.0.2.1", "outside the network")
	explains("10.5.255.255", "leased to no node")

	// Other users can read a secret, until the test runs the command that status
	// prints.
	if err := os.Chmod(one.StateDir, 0o755); err != nil {
		t.Fatal(err)
	}
	w.says(one, "exposed:", "--state-dir: "+one.StateDir+" has mode 0755", "run: chmod o-rwx "+one.StateDir)
	if err := os.Chmod(one.StateDir, 0o750); err != nil {
		t.Fatal(err)
	}
	w.silent(one, "exposed")

	// A foreign policy rule diverts packets, although our routes are in place.
	one.NS.IP(t, "route add default dev eth0 table 100")
	one.NS.IP(t, "rule add to "+pod[subnet.IPv4].String()+" table 100 priority 10")
	explains(pod[subnet.IPv4].String(), "another route or rule comes first")
	one.NS.IP(t, "rule del priority 10")
	explains(pod[subnet.IPv4].String(), "in place")

	// A lease is invalid, and the store is down.
	w.lend(leasesKey+"10.9.0.0-24", `{"PublicIP":"198.18.0.77","BackendType":"vxlan","BackendData":{"VNI":1,"VtepMAC":"3a:00:00:00:00:01"}}`)
	for _, away := range []bool{false, true} {
		if away {
			w.etcd.Member(0).Stop()
		}
		w.eventually(func() error {
			var r status.Report
			if err := w.commandJSON(one, &r, "status"); err != nil {
				return err
			}
			if len(r.Rejected) != 1 || !strings.Contains(r.Rejected[0].Why, "no part of 10.5.0.0/16") || (len(r.Store.Failing) > 0) != away {
				return fmt.Errorf("the report is %+v", r)
			}
			return nil
		})
	}
	w.etcd.Member(0).Restart()
	w.eventually(func() error {
		var r status.Report
		if err := w.commandJSON(one, &r, "status"); err != nil || len(r.Store.Failing) > 0 {
			return fmt.Errorf("the report is %+v, %w", r, err)
		}
		return nil
	})
	// A user other than root is refused. If no daemon answers, the error names the
	// socket.
	for _, c := range []struct {
		flag, says string
		code       int
	}{{"--status-socket=/run/no-daemon", "no daemon answers at /run/no-daemon", 3}, {"--output=xml", "unknown output format", 2}} {
		if out, code := w.command(one, "status", c.flag); code != c.code || !strings.Contains(out, c.says) {
			t.Errorf("%s: %d: %s", c.flag, code, out)
		}
	}
}

// TestBugReport writes an archive that contains everything helpful and no secret.
func TestBugReport(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, 1, dualConfig)
	one := w.Hosts[0]
	for _, h := range w.Hosts {
		w.start(h, "--etcd-username=planted-user", "--etcd-password=hunter2-planted")
	}
	w.eventually(func() error {
		if out, _ := w.command(one, "peers"); !strings.Contains(out, "host2") {
			return fmt.Errorf("tulled peers: %s", out)
		}
		return nil
	})
	w.awaitReady(one) // the report has routes and the env file
	out, code := w.command(one, "bugreport", "/run/report.tar.gz", "--etcd-username=planted-user", "--etcd-password=hunter2-planted")
	if code != 0 || !strings.Contains(out, "wrote /run/report.tar.gz; review it") {
		t.Fatalf("%d: %s", code, out)
	}
	files := archivetest.Texts(t, filepath.Join(one.Dir, "run/report.tar.gz"))
	for name, text := range files {
		if strings.Contains(text, "hunter2-planted") {
			t.Errorf("%s has the password:\n%s", name, text)
		}
	}
	for name, part := range map[string]string{
		"tulle/flags.txt": "--etcd-password=…", "tulle/leases.json": `"Network": "10.5.0.0/16"`, "tulle/leases.txt": "host2",
		"tulle/status.txt": "peers:", "tulle/status.json": `"nodeName": "host2"`, "tulle/version.txt": "devel", "tulle/subnet.env": "FLANNEL_SUBNET=",
		"tulle/host/ip_route_show_table_all.txt": "proto 84", "tulle/host/nft_list_ruleset.txt": "$ nft list ruleset", "tulle/host/ip_-s_-d_link_show.txt": "tulle.1",
	} {
		if !strings.Contains(files[name], part) {
			t.Errorf("%s has no %q:\n%.500s", name, part, files[name])
		}
	}
}

// newAdopted returns a world whose first host has flannel's device, which its daemon
// has adopted.
func newAdopted(t *testing.T) (w *world, one *clustertest.Host) {
	t.Helper()
	w = newWorld(t, 2, 1, vxlan)
	one = w.Hosts[0]
	one.NS.IP(t, "link add flannel.1 type vxlan id 1 dstport 8472 local 198.18.0.1 nolearning")
	for _, h := range w.Hosts {
		w.start(h)
	}
	for _, h := range w.Hosts {
		w.daemons[h].WaitLog("Kernel in sync with all peers")
	}
	return w, one
}

// TestStatusOfAdopted requests the status of a node that has adopted flannel's
// device, which keeps its name.
func TestStatusOfAdopted(t *testing.T) {
	t.Parallel()
	w, one := newAdopted(t)
	for _, h := range w.Hosts {
		h.AddPod()
	}
	w.Matrix()
	w.eventually(func() error {
		var e status.Explanation
		if err := w.commandJSON(one, &e, "explain", w.Hosts[1].Pods[0].Addr[subnet.IPv4].String()); err != nil {
			return err
		}
		peers, err := w.peersOf(one)
		if err != nil {
			return err
		}
		if !strings.Contains(e.Path, "flannel.1") || !strings.Contains(e.Verdict, "in place") || len(e.Entries) != 3 || len(peers) != 1 || peers[0].By != "tunnel" {
			return fmt.Errorf("%+v, peers %+v", e, peers)
		}
		return nil
	})
}
