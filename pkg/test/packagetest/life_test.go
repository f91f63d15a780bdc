//go:build packages

package packagetest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/test/certtest"
	"github.com/tulle-net/tulle/pkg/test/clustertest"
	"github.com/tulle-net/tulle/subnet"
)

// TestLife installs, upgrades and removes the packages on two machines, the deb on
// one and the rpm on the other.
func TestLife(t *testing.T) {
	t.Parallel()
	older, newer := build(t, "../../..", "v1.0.0"), build(t, "../../..", "v1.0.1-rc.1-3-gabcdef0")
	root, group := debian(t), cgroups(t)
	c := clustertest.New(t, clustertest.Options{Hosts: 3})
	one, two, outside := boot(t, c.Hosts[0], root, group), boot(t, c.Hosts[1], root, group), c.Hosts[2]
	both := []*machine{one, two}
	before := map[*machine][]string{}
	for _, m := range both {
		defer m.logOutput()
		before[m] = m.files()
	}

	const dpkg = "dpkg -i"
	rpm := "rpm -U --nodeps" // Debian's rpm does not know the installed packages
	if two.command("rpm", "--force-debian", "--version").Run() == nil {
		rpm += " --force-debian"
	}
	one.install(older.deb, dpkg)
	two.install(older.rpm, rpm)
	for _, m := range both {
		if is := m.fails("systemctl is-enabled tulled"); is != "disabled" {
			t.Errorf("%s: after its installation the service is %s", m.Name, is)
		}
		if is := m.fails("systemctl is-active tulled"); is != "inactive" {
			t.Errorf("%s: after its installation the service is %s", m.Name, is)
		}
		for _, unit := range []string{"tulled.service", "tulle-etcd.service", "tulle-controller.service"} {
			score := strings.Split(m.run("systemd-analyze security --no-pager --offline=true --threshold=30 /usr/lib/systemd/system/"+unit), "\n")
			t.Log(score[len(score)-1])
			m.run("systemd-analyze verify " + unit)
		}
	}

	settings := configure(t, one, two)
	// If Docker has set this policy, packets pass only with an accept rule in legacy
	// iptables.
	for _, m := range both {
		for _, command := range []string{"iptables-legacy", "ip6tables-legacy"} {
			m.run(command + " -P FORWARD DROP")
			m.run(command + " -A INPUT -j ACCEPT") // tulled keeps to the tables that are in use
		}
	}
	for _, m := range both {
		m.run("systemctl enable --now tulled") // and waits until it is ready
		m.confined()
		m.AddPod()
	}
	c.Matrix()
	one.etcd()
	controllers := []*controller{one.control(), two.control()}
	if is := two.fails("systemctl is-active tulle-etcd"); is != "inactive" {
		t.Errorf("%s: the etcd is on the other machine, but tulle-etcd is %s", two.Name, is)
	}
	one.rules("nft", "ip saddr 10.5.0.0/16 masquerade", "legacy", "-A TULLE-FWD -s 10.5.0.0/16 -j ACCEPT")
	two.rules("legacy", "-A TULLE-POSTRTG -s 10.5.0.0/16 -j MASQUERADE", "legacy", "-A TULLE-FWD -s 10.5.0.0/16 -j ACCEPT")
	for _, m := range both {
		for _, family := range subnet.Families { // the gateway has no route back to a pod
			m.Pods[0].NS.Ping(t, "", outside.Addr[family].String(), 64)
		}
		m.heals()
	}
	c.Matrix()

	etcd := one.show("MainPID", "tulle-etcd")
	// No packet may be lost from here on.
	streams := []*clustertest.Stream{
		c.Ping(one.Pods[0], two.Pods[0], subnet.IPv4), c.Ping(two.Pods[0], one.Pods[0], subnet.IPv6),
	}
	for _, m := range both {
		m.outlives()
	}
	one.install(newer.deb, dpkg)
	two.install(newer.rpm, rpm)
	for _, m := range both {
		m.ready()
		if is := m.run("tulled version"); is != "v1.0.1-rc.1-3-gabcdef0" || m.run("/proc/"+m.show("MainPID", "tulled")+"/exe version") != is {
			t.Errorf("%s runs %s", m.Name, is)
		}
		if m.run("cat /etc/default/tulled") != settings[m] {
			t.Errorf("%s: the upgrade has changed the settings", m.Name)
		}
		if out := m.run("journalctl --no-pager -o cat -u tulled -u tulle-etcd"); regexp.MustCompile(`(?i)not permitted|read-only|permission denied`).MatchString(out) {
			t.Errorf("%s: systemd's limits forbid what the service needs", m.Name)
		}
		if out := m.run("systemctl --failed --no-legend --plain"); out != "" {
			t.Errorf("%s: %s", m.Name, out)
		}
	}

	for _, c := range controllers {
		c.upgraded("v1.0.1-rc.1-3-gabcdef0")
	}

	controlFromEtcd(t, both, outside)

	// The upgrade of this host does not stop the store, which the others use.
	if is := one.show("MainPID", "tulle-etcd"); is != etcd || is == "0" {
		t.Errorf("%s: tulle-etcd was process %s and is %s", one.Name, etcd, is)
	}
	one.run("systemctl restart tulle-etcd")
	if is := one.run("/proc/" + one.show("MainPID", "tulle-etcd") + "/exe version"); is != "v1.0.1-rc.1-3-gabcdef0" {
		t.Errorf("%s runs tulle-etcd %s", one.Name, is)
	}

	one.run("dpkg -r tulle")
	two.run("rpm -e tulle")
	for _, s := range streams {
		if !s.WaitAnswered(20) {
			t.Error("nothing passes any more")
		}
		if r := s.Stop(); r.Lost > 0 {
			t.Error(r)
		}
	}
	one.wantLeft(before[one], "/etc/cni", "/etc/cni/net.d", "/etc/cni/net.d/10-tulle.conflist", "/etc/default/tulled", "/etc/default/tulle-controller", "/etc/systemd/system/multi-user.target.wants/tulle-controller.service",
		"/etc/systemd/system/multi-user.target.wants/tulled.service", "/etc/systemd/system/tulled.service.d", "/etc/systemd/system/tulled.service.d/watchdog.conf", "/var/lib/tulle/*")
	two.wantLeft(before[two], "/etc/default/tulled.rpmsave", "/etc/default/tulle-controller.rpmsave", "/etc/systemd/system/tulled.service.d", "/etc/systemd/system/tulled.service.d/watchdog.conf", "/var/lib/tulle/*")
	one.run("rm -r /etc/systemd/system/tulled.service.d /etc/cni/net.d/10-tulle.conflist") // the package does not own them
	one.run("dpkg -P tulle")
	one.wantLeft(before[one], "/etc/cni", "/etc/cni/net.d")
	for _, m := range both {
		for _, unit := range []string{"tulled", "tulle-etcd", "tulle-controller"} {
			if is := m.show("LoadState", unit); is != "not-found" {
				t.Errorf("%s: after the removal, %s is %s", m.Name, unit, is)
			}
		}
	}
	c.Matrix()
}

// configure writes the network's settings to the machines. The first one keeps the
// store. It returns the files.
func configure(t *testing.T, one, two *machine) map[*machine]string {
	t.Helper()
	files := certtest.NewFiles(t)
	certtest.New(t).Write(files, one.Addr[subnet.IPv4], time.Hour)
	endpoint := fmt.Sprintf("https://%s:2379", one.Addr[subnet.IPv4])
	common := "TULLED_IP_MASQ=true\n"
	for variable, path := range map[string]string{"CAFILE": files.CA, "CERTFILE": files.Cert, "KEYFILE": files.Key} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		at := "/etc/tulle/" + filepath.Base(path)
		for _, m := range []*machine{one, two} {
			m.put(at, string(text))
		}
		common += "TULLED_ETCD_" + variable + "=" + at + "\n"
	}
	settings := map[*machine]string{
		one: common + "TULLED_ETCD_EMBEDDED=true\nTULLED_ETCD_LISTEN=" + endpoint + "\nTULLED_NETWORK=10.5.0.0/16,fd00:5::/48\n" +
			"TULLED_CNI_CONF_FILE=/etc/cni/net.d/10-tulle.conflist",
		two: common + "TULLED_ETCD_ENDPOINTS=" + endpoint + "\nTULLED_FILTER=iptables\nOPTIONS=\"--iface=eth9 --iface=eth0\"",
	}
	for m, text := range settings {
		m.put("/etc/default/tulled", text)
	}
	return settings
}

// ready waits until the service is ready.
func (m *machine) ready() {
	m.t.Helper()
	kerneltest.Eventually(m.t, patience, func() error { return kerneltest.Try(m.command("systemctl", "is-active", "tulled")) })
}

// confined checks the limits that systemd sets for the service.
func (m *machine) confined() {
	m.t.Helper()
	pid := m.show("MainPID", "tulled")
	status := m.run("cat /proc/" + pid + "/status")
	const netAdminAndRaw = "0000000000003000"
	for _, want := range []string{"CapEff:\t" + netAdminAndRaw, "CapBnd:\t" + netAdminAndRaw, "CapAmb:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"} {
		if !strings.Contains(status, want+"\n") {
			m.t.Errorf("%s: the service lacks %q:\n%s", m.Name, want, status)
		}
	}
	mounts := m.run("cat /proc/" + pid + "/mounts")
	for path, want := range map[string]string{"/": "ro", "/proc/sys": "ro", "/proc/sys/net": "rw", "/run/flannel": "rw", "/run/tulle": "rw",
		"/var/lib/tulle": "rw", "/run/xtables.lock": "rw", "/etc/cni/net.d": "rw", "/sys/fs/cgroup": "ro"} {
		if !regexp.MustCompile(`(?m)^\S+ ` + path + ` \S+ ` + want + `[, ]`).MatchString(mounts) {
			m.t.Errorf("%s: for the service %s is not %s:\n%s", m.Name, path, want, mounts)
		}
	}
	info, err := os.Stat(m.SubnetFile)
	if err != nil || info.Mode().Perm() != 0o644 {
		m.t.Errorf("%s: the env file: %v, %v", m.Name, info, err)
	}
	for path, want := range map[string]string{"/var/lib/tulle": "700:root", "/run/tulle/tulled.sock": "600:root"} {
		if out := m.run("stat -c %a:%U " + path); out != want {
			m.t.Errorf("%s: %s is %s", m.Name, path, out)
		}
	}
	// A bug report contains the state of services from systemd, but no command line.
	m.run("tulled bugreport /run/report.tar.gz")
	services := m.run("tar -xzOf /run/report.tar.gz tulle/host/systemctl_show_tulled_docker_containerd_kubelet.txt")
	if !strings.Contains(services, "ActiveState=active") || strings.Contains(services, "/usr/bin/tulled") {
		m.t.Errorf("%s: a bug report contains about services:\n%s", m.Name, services)
	}
}

// status returns what tulled reports, with one space between two words.
func (m *machine) status() string {
	m.t.Helper()
	return strings.Join(strings.Fields(m.run("tulled status")), " ")
}

// etcd checks the limits of the etcd that systemd runs for tulled, and how it stops.
func (m *machine) etcd() {
	m.t.Helper()
	status := m.run("cat /proc/" + m.show("MainPID", "tulle-etcd") + "/status")
	for _, want := range []string{"CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"} {
		if !strings.Contains(status, want+"\n") {
			m.t.Errorf("%s: tulle-etcd lacks %q:\n%s", m.Name, want, status)
		}
	}
	for path, want := range map[string]string{"/var/lib/tulle/etcd": "700:root", "/run/tulle/tulle-etcd.env": "600:root", "/var/lib/tulle/etcd/control": "700:root"} {
		if out := m.run("stat -c %a:%U " + path); out != want {
			m.t.Errorf("%s: %s is %s", m.Name, path, out)
		}
	}
	running := func(unlike string) {
		m.t.Helper()
		kerneltest.Eventually(m.t, patience, func() error {
			out := m.status()
			if pid := m.show("MainPID", "tulle-etcd"); pid == unlike || !strings.Contains(out, "tulle-etcd: running, process "+pid+",") {
				return fmt.Errorf("%s: tulle-etcd is process %s, and tulled reports\n%s", m.Name, pid, out)
			}
			return nil
		})
	}
	running("0")
	for _, signal := range []string{"KILL", "ABRT"} {
		pid := m.show("MainPID", "tulle-etcd")
		m.run("systemctl kill --kill-whom=main -s " + signal + " tulle-etcd")
		running(pid)
	}
	m.run("systemctl stop tulle-etcd")
	kerneltest.Eventually(m.t, patience, func() error {
		if out := m.status(); !strings.Contains(out, "tulle-etcd: not running, it was stopped") {
			return fmt.Errorf("%s: tulled reports\n%s", m.Name, out)
		}
		return nil
	})
	if is := m.show("Result", "tulle-etcd"); is != "success" {
		m.t.Errorf("%s: after its stop, tulle-etcd has the result %s", m.Name, is)
	}
	m.run("systemctl restart tulled")
	running("0")
}

// rules checks that each of the rules is in the tables of its kind.
func (m *machine) rules(want ...string) {
	m.t.Helper()
	shows := map[string][]string{"nft": {"nft", "list", "table", "inet", "tulle"}, "legacy": {"sh", "-c", "iptables-legacy-save; ip6tables-legacy-save"}}
	for pair := range slices.Chunk(want, 2) {
		if out := kerneltest.Run(m.t, m.NS.Command(shows[pair[0]]...)); !strings.Contains(out, pair[1]) {
			m.t.Errorf("%s: %s has no %q:\n%s", m.Name, pair[0], pair[1], out)
		}
	}
}

// heals deletes what the service has made, and waits until the service has restored it.
func (m *machine) heals() {
	m.t.Helper()
	m.NS.IP(m.t, "link del tulle.1")
	if err := os.Remove(m.SubnetFile); err != nil {
		m.t.Fatal(err)
	}
	for _, command := range []string{"iptables-legacy", "ip6tables-legacy"} {
		m.run(command + " -F FORWARD")
	}
	kerneltest.Eventually(m.t, patience, func() error {
		_, err := os.Stat(m.SubnetFile)
		_, v6 := m.NS.Command("ip6tables-legacy", "-C", "FORWARD", "-m", "comment", "--comment", "tulle", "-j", "TULLE-FWD").CombinedOutput()
		return errors.Join(err, v6, kerneltest.Try(m.NS.Command("ip", "link", "show", "tulle.1")))
	})
	m.run("systemctl reload tulled")
	m.ready()
	kerneltest.Eventually(m.t, patience, func() error {
		return kerneltest.Try(m.command("test", "-s", "/var/lib/tulle/snapshot"))
	})
}

// outlives checks that the kernel keeps its state while the service crashes and hangs,
// and while networkd starts.
func (m *machine) outlives() {
	m.t.Helper()
	restarts := 0
	back := func() {
		m.t.Helper()
		restarts++
		kerneltest.Eventually(m.t, patience, func() error {
			if n := m.show("NRestarts", "tulled"); n != fmt.Sprint(restarts) {
				return fmt.Errorf("%s: the service was restarted %s times, not %d", m.Name, n, restarts)
			}
			return nil
		})
		m.ready()
	}
	m.put("/etc/systemd/system/tulled.service.d/watchdog.conf", "[Service]\nWatchdogSec=5\nRestartSec=0\nLimitCORE=0\n")
	m.run("systemctl daemon-reload")
	m.run("systemctl restart tulled")
	m.run("systemctl kill -s KILL tulled")
	if _, err := os.Stat(m.SubnetFile); errors.Is(err, fs.ErrNotExist) {
		m.t.Errorf("%s: the env file was removed with the service", m.Name)
	}
	back()
	m.run("systemctl kill -s STOP --kill-whom=main tulled")
	back()

	m.run("systemctl stop tulled") // a running service would restore what networkd changes
	if is := m.show("Result", "tulled"); is != "success" {
		m.t.Errorf("%s: after its stop, the service has the result %s", m.Name, is)
	}
	had := m.Kernel()
	m.put("/etc/systemd/network/50-all.network", "[Match]\nName=!lo eth0 veth*\n")
	for range 2 {
		m.run("systemctl restart systemd-networkd")
		kerneltest.Eventually(m.t, patience, func() error {
			for _, device := range []string{"tulle.1", "tulle6.1", "cni0"} {
				out, err := m.command("networkctl", "list", "--no-legend", device).CombinedOutput()
				if err != nil || !strings.HasSuffix(strings.TrimSpace(string(out)), "unmanaged") {
					return fmt.Errorf("%s: networkd has %s as %s: %w", m.Name, device, out, err)
				}
			}
			return nil
		})
	}
	m.run("systemctl stop systemd-networkd.socket systemd-networkd")
	m.run("rm /etc/systemd/network/50-all.network")
	if has := m.Kernel(); has != had {
		m.t.Errorf("%s: with networkd the kernel has\n%s\nand had\n%s", m.Name, has, had)
	}
	m.run("systemctl start tulled")
}

// wantLeft checks which files the machine has in addition to those before. A path may
// end with a star, which stands for everything below it.
func (m *machine) wantLeft(had []string, want ...string) {
	m.t.Helper()
	for _, path := range added(had, m.files()) {
		if !slices.ContainsFunc(want, func(w string) bool {
			below, all := strings.CutSuffix(w, "/*")
			return path == w || all && (path == below || strings.HasPrefix(path, below+"/"))
		}) {
			m.t.Errorf("%s: %s remains", m.Name, path)
		}
	}
}
