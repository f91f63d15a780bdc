package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tulle-net/tulle/pkg/test/clustertest"
)

// extensionConfigs returns the configs that the page of backends shows.
func extensionConfigs(t *testing.T) (routes, tunnels string) {
	t.Helper()
	page, err := os.ReadFile("../../../Documentation/backends.md")
	if err != nil {
		t.Fatal(err)
	}
	all := regexp.MustCompile("(?s)```json\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	if len(all) != 2 {
		t.Fatalf("the page has %d configs", len(all))
	}
	return all[0][1], all[1][1]
}

// allowed starts a daemon that may run commands.
func (w *world) allowed(h *clustertest.Host) *clustertest.Daemon {
	return w.start(h, "--allow-extension")
}

// newExtension returns a network of the backend extension with a pod on each host.
func newExtension(t *testing.T, hosts int, config string) *world {
	t.Helper()
	w := newWorld(t, hosts, 1, config)
	for _, h := range w.Hosts {
		w.allowed(h)
	}
	for _, h := range w.Hosts {
		h.AddPod()
	}
	w.commandsDone(w.Hosts...)
	w.Matrix()
	return w
}

// commandsDone waits until hosts have run all commands.
func (w *world) commandsDone(hosts ...*clustertest.Host) {
	w.t.Helper()
	for _, h := range hosts {
		w.eventually(func() error {
			out, code := w.command(h, "status")
			if code != 0 || !strings.Contains(out, "commands:") || strings.Contains(out, "waiting,") {
				return fmt.Errorf("%s exits with code %d:\n%s", h.Name, code, out)
			}
			return nil
		})
	}
}

// TestExtensionBuildsTheNetwork runs the page's commands in real daemons: a VXLAN, and
// plain routes. Peers go while a daemon runs and while it does not, and daemons are
// killed under pings.
func TestExtensionBuildsTheNetwork(t *testing.T) {
	t.Parallel()
	_, config := extensionConfigs(t)
	w := newExtension(t, 3, config)
	a, b, c := w.Hosts[0], w.Hosts[1], w.Hosts[2]
	subnets, err := subnetsOf(c)
	if err != nil {
		t.Fatal(err)
	}
	gone := func(h *clustertest.Host) error {
		if held := h.Kernel(); strings.Contains(held, subnets[0].Addr().String()) {
			return fmt.Errorf("%s still has %s:\n%s", h.Name, subnets[0], held)
		}
		return nil
	}
	if out, code := w.command(a, "explain", subnets[0].Addr().Next().String()); code != 0 || !strings.Contains(out, "SubnetAddCommand "+subnets[0].String()) {
		t.Errorf("explain exits with code %d:\n%s", code, out)
	}

	p := w.pings(a, b)
	p.more(10)
	w.daemons[a].Kill()
	w.allowed(a).WaitLog("Kernel in sync with all peers")
	w.commandsDone(a)
	p.more(10)
	p.wantLost(0)

	w.daemons[b].Stop()
	w.daemons[c].Kill()
	w.delete(leasesKey + w.key(c))
	w.eventually(func() error { return gone(a) })
	w.allowed(b)
	w.eventually(func() error { return gone(b) })
	w.allowed(c)
	w.commandsDone(w.Hosts...)
	w.Matrix()

	w.daemons[a].Stop()
	out, code := w.cleanUp(a)
	if code != 0 || strings.Count(out, "SubnetAddCommand") != 2 {
		t.Errorf("cleanup exits with code %d:\n%s", code, out)
	}
	if held := a.Kernel(); strings.Contains(held, "ext0") && strings.Contains(held, "onlink") {
		t.Errorf("after the cleanup:\n%s", held)
	}
	if left, err := filepath.Glob(filepath.Join(a.StateDir, "commands", "*.json")); err != nil || len(left) > 0 {
		t.Errorf("records are left: %v, %v", left, err)
	}
}

// TestExtensionChangesLive changes commands in a running network.
func TestExtensionChangesLive(t *testing.T) {
	t.Parallel()
	config, _ := extensionConfigs(t)
	w := newExtension(t, 2, config)
	a := w.Hosts[0]
	var whole struct {
		Network string
		Backend map[string]any
	}
	if err := json.Unmarshal([]byte(config), &whole); err != nil {
		t.Fatal(err)
	}
	add := whole.Backend["SubnetAddCommand"].(string)
	set := func(command string) {
		t.Helper()
		whole.Backend["SubnetAddCommand"] = command
		whole.Backend["CommandTimeout"] = 2
		text, err := json.Marshal(whole)
		if err != nil {
			t.Fatal(err)
		}
		w.put(configKey, string(text))
	}
	shows := func(what ...string) {
		t.Helper()
		w.eventually(func() error {
			out, _ := w.command(a, "status")
			for _, text := range what {
				if !strings.Contains(out, text) {
					return fmt.Errorf("%q is missing:\n%s", text, out)
				}
			}
			return nil
		})
	}
	set("echo broken >&2; exit 7")
	shows("exit status 7", `output "broken"`, "1 waiting, 1 of them failed")
	set("echo hung; sleep 1000")
	shows("did not end within 2s and was killed", "1 killed")
	set(add)
	w.commandsDone(w.Hosts...)
	w.Matrix()
}

// TestExtensionMustBeAllowed starts a daemon that may run no commands.
func TestExtensionMustBeAllowed(t *testing.T) {
	t.Parallel()
	config, _ := extensionConfigs(t)
	w := newWorld(t, 1, 1, config)
	h := w.Hosts[0]
	d := w.start(h)
	w.eventually(func() error {
		if out, code := w.command(h, "status"); code != 1 || !strings.Contains(out, "set --allow-extension to true if you trust all who may write that config") {
			return fmt.Errorf("it exits with code %d:\n%s", code, out)
		}
		return nil
	})
	if len(w.leases()) > 0 {
		t.Errorf("the node has a lease: %v", w.leases())
	}
	d.Stop()
	w.allowed(h)
	w.eventually(func() error {
		if len(w.leases()) != 1 {
			return fmt.Errorf("the leases are %v", w.leases())
		}
		return nil
	})
}

// TestExtensionSurvivesHostileLeases writes leases whose data attacks shells. Each of them
// is another node's text, and no more.
func TestExtensionSurvivesHostileLeases(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	config := fmt.Sprintf(`{"Network": "10.5.0.0/16", "Backend": {"Type": "extension",
		"PreStartupCommand": "echo $(hostname)",
		"SubnetAddCommand": "cat > %[1]s/add-$(hostname)-${SUBNET%%%%/*}", "SubnetRemoveCommand": "cat > %[1]s/remove-$(hostname)-${SUBNET%%%%/*}"}}`, dir)
	w := newWorld(t, 2, 1, config)
	for _, h := range w.Hosts {
		w.allowed(h)
	}
	w.commandsDone(w.Hosts...)
	hostile := []string{"$(touch " + dir + "/hostile)", "`touch " + dir + "/hostile`", "'; touch " + dir + "/hostile; '", "\"; touch " + dir + "/hostile; \"", "a\x00b\nSUBNET=10.5.0.0/16\n", strings.Repeat("x", 15<<10)}
	for i, text := range hostile {
		data, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		w.lend(leasesKey+fmt.Sprintf("10.5.%d.0-24", 200+i), fmt.Sprintf(`{"PublicIP":"198.18.0.%d","BackendType":"extension","BackendData":%s}`, 200+i, data))
	}
	w.lend(leasesKey+"10.5.190.0-24", `{"PublicIP":"198.18.0.190","BackendType":"extension","BackendData":"`+strings.Repeat("x", 1<<20)+`"}`)
	expect := func(command string) {
		t.Helper()
		for _, h := range w.Hosts {
			for i, text := range hostile {
				w.eventually(func() error {
					got, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("%s-%s-10.5.%d.0", command, h.Name, 200+i)))
					if err != nil || string(got) != text+"\n" {
						return fmt.Errorf("%s of %d on %s had %.100q, %v", command, i, h.Name, got, err)
					}
					return nil
				})
			}
		}
	}
	expect("add")
	for i := range hostile {
		w.delete(leasesKey + fmt.Sprintf("10.5.%d.0-24", 200+i))
	}
	expect("remove")
	if out, _ := w.command(w.Hosts[0], "leases", "--etcd-endpoints="+strings.Join(w.etcd.Endpoints(), ",")); !strings.Contains(out, "bytes are more than the 16384 allowed") {
		t.Errorf("the large lease is not explained:\n%s", out)
	}
	names, err := os.ReadDir(dir)
	if err != nil || slices.ContainsFunc(names, func(e os.DirEntry) bool { return e.Name() == "hostile" || strings.Contains(e.Name(), "190") }) {
		t.Errorf("the folder has %v, %v", names, err)
	}
}
