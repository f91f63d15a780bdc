package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/status"
	"github.com/tulle-net/tulle/pkg/test/clustertest"
	"github.com/tulle-net/tulle/subnet"
)

// firewalldView runs a firewalld with a bus of its own, in mount and process namespaces
// where it cannot harm the machine. It loads no kernel modules.
const firewalldView = `set -e
exec unshare --pid --fork --kill-child=KILL sh -c '
set -e
mount -t proc proc /proc
mount -t tmpfs tmpfs /var/log
! modprobe=$(command -v modprobe) || mount --bind /bin/true "$modprobe"
dbus-daemon --config-file="$1/bus.conf" --nofork --nopidfile &
until [ -S /run/bus ]; do read -r pause </proc/uptime; done
export DBUS_SYSTEM_BUS_ADDRESS=unix:path=/run/bus
exec firewalld --nofork --nopid --system-config "$1" --log-target console
' sh "$@"`

// busConfig is a bus without services, on which root may do everything.
const busConfig = `<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN" "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
	<listen>unix:path=/run/bus</listen>
	<policy context="default">
		<allow user="root"/>
		<allow own="*"/>
		<allow send_destination="*"/>
		<allow receive_sender="*"/>
	</policy>
</busconfig>
`

// firewalld starts a firewalld as it is installed, except for its backend, and waits
// until its rules are in force.
func firewalld(t *testing.T, h *clustertest.Host, backend string) {
	t.Helper()
	folder := t.TempDir()
	for name, text := range map[string]string{
		"bus.conf": busConfig, "firewalld.conf": "DefaultZone=public\nFirewallBackend=" + backend + "\n",
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	h.Start(clustertest.Command{Argv: []string{"sh", "-c", firewalldView, "sh"}}, folder)
	kerneltest.Eventually(t, patience, func() error {
		_, err := firewallCmd(h, "firewall-cmd --state")
		return err
	})
	// The tunnel's own packets enter the host, like those of any other service.
	if out, err := firewallCmd(h, "firewall-cmd --permanent --add-port=8472/udp && firewall-cmd --reload"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// firewallCmd runs a line of shell that talks to a host's firewalld.
//
// ebtables-restore 1.8.9 fails by itself with ENOENT if any other program, such as
// tulled, changes nf_tables between its transactions: in about 2 of 100 runs beside a
// loop of nft. firewalld then reports COMMAND_FAILED. The line is tried again.
func firewallCmd(h *clustertest.Host, line string) (string, error) {
	for tries := 1; ; tries++ {
		cmd := exec.Command("sh", "-c", line)
		cmd.Env = append(os.Environ(), "DBUS_SYSTEM_BUS_ADDRESS=unix:path="+filepath.Join(h.Dir, "run/bus"))
		out, err := cmd.CombinedOutput()
		if err != nil && tries < 5 && ebtablesRace.Match(out) {
			continue
		}
		return string(out), err
	}
}

var ebtablesRace = regexp.MustCompile(`(?s)ebtables-restore .*RULE_[A-Z]+ failed \(No such file or directory\)`)

// TestBesideFirewalld runs real firewallds on two hosts. With rules in iptables'
// tables, firewalld accepts the network's packets without a setting. With a table of
// its own, the status names the command that makes it accept them. Reloads of firewalld
// change nothing in either case.
func TestBesideFirewalld(t *testing.T) {
	t.Parallel()
	for _, backend := range []string{"nftables", "iptables"} {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			f := newUnreached(t, dualConfig, func(h *clustertest.Host) { firewalld(t, h, backend) })
			hosts := f.Hosts[:2]
			if backend == "nftables" {
				fix := regexp.MustCompile(`firewall-cmd .*--reload$`)
				for _, h := range hosts {
					var line string
					f.eventually(func() error {
						others := f.others(h)
						if len(others) != 1 || !strings.HasPrefix(others[0], "the chain inet firewalld filter_FORWARD drops packets forwarded from and to 10.5.0.0/16 and fd00:5::/48;") {
							return fmt.Errorf("the status names %q", others)
						}
						line = fix.FindString(others[0])
						return nil
					})
					for _, family := range subnet.Families {
						if from, err := look(f.pod.NS.Path, at(f.peer.Addr[family])); err == nil {
							t.Errorf("firewalld accepts packets from %s, so this test proves nothing", from)
						}
					}
					if out, err := firewallCmd(h, line); err != nil {
						t.Fatalf("%s: %v: %s", line, err, out)
					}
				}
			}
			f.besideAnother(func(h *clustertest.Host) []string {
				return []string{"firewall-cmd --reload", "firewall-cmd --complete-reload"}
			}, firewallCmd)
			for _, h := range hosts {
				f.eventually(func() error {
					if others := f.others(h); len(others) > 0 {
						return fmt.Errorf("the status names %q", others)
					}
					return nil
				})
			}
		})
	}
}

// others returns the foreign rules in the status of a host's daemon.
func (f *filtered) others(h *clustertest.Host) []string {
	var r status.Report
	if err := f.commandJSON(h, &r, "status"); err != nil {
		return []string{err.Error()}
	}
	return r.Firewall.Others
}

// besideAnother checks that pods reach one another and hosts outside, also while
// another firewall is reconfigured on both hosts.
func (f *filtered) besideAnother(things func(h *clustertest.Host) []string, do func(h *clustertest.Host, line string) (string, error)) {
	f.t.Helper()
	works := func() {
		f.t.Helper()
		for _, family := range subnet.Families {
			f.seen(f.pod.NS.Path, at(f.peer.Addr[family]), f.pod.Addr[family])
			f.seen(f.peer.NS.Path, at(f.pod.Addr[family]), f.peer.Addr[family])
			f.seen(f.pod.NS.Path, at(f.outside.Addr[family]), f.here.Addr[family])
		}
		f.Reach(f.pod, f.peer)
	}
	works()
	var flows []*flow
	for _, family := range subnet.Families {
		flows = append(flows, f.flow(f.pod.NS.Path, f.outside.NS.Path, f.outside.Addr[family], f.here.Addr[family]))
		flows = append(flows, f.flow(f.pod.NS.Path, f.peer.NS.Path, f.peer.Addr[family], f.pod.Addr[family]))
	}
	for _, h := range f.Hosts[:2] {
		for _, line := range things(h) {
			there := f.pings(f.here, f.there)
			there.more(20)
			if out, err := do(h, line); err != nil {
				f.t.Fatalf("%s: %v: %s", line, err, out)
			}
			there.more(100)
			f.t.Logf("%s on %s:", line, h.Name)
			there.wantLost(1 << 30) // losses on the other host do not count
			works()
			for _, flow := range flows {
				if err := flow.echo(); err != nil {
					f.t.Errorf("after %s: %v", line, err)
				}
			}
		}
	}
}
