package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tulle-net/tulle/pkg/envfile"
	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/test/clustertest"
	"github.com/tulle-net/tulle/subnet"
)

// pluginFolders are where distributions and users install the standard plugins.
var pluginFolders = []string{"/usr/lib/cni", "/opt/cni/bin", "/usr/libexec/cni"}

// cniView runs a plugin with a /var/lib of the host's own: there host-local records
// which pod has which address.
const cniView = `set -e
mount --bind "$1" /var/lib
exec "$2"`

// podRuntime does what a container runtime does for a host's pods: it runs the
// plugins of the config that tulled has written.
type podRuntime struct {
	w       *world
	host    *clustertest.Host
	plugins string // their folder
	varLib  string
	list    struct {
		CNIVersion, Name string
		Plugins          []map[string]any
	}
}

// pod is a pod of a runtime.
type pod struct {
	clustertest.Pod
	runtime *podRuntime
	ports   []portMapping
	result  json.RawMessage // the result of ADD
}

type portMapping struct {
	HostPort      uint16 `json:"hostPort"`
	ContainerPort uint16 `json:"containerPort"`
	Protocol      string `json:"protocol"`
}

// newRuntime waits for the host's CNI config.
func (w *world) newRuntime(h *clustertest.Host) *podRuntime {
	w.t.Helper()
	r := &podRuntime{w: w, host: h, varLib: filepath.Join(h.Dir, "var-lib")}
	found := slices.IndexFunc(pluginFolders, func(folder string) bool {
		_, err := os.Stat(filepath.Join(folder, "portmap"))
		return err == nil
	})
	if found < 0 {
		w.t.Fatalf("no CNI plugins in %s", strings.Join(pluginFolders, ", "))
	}
	r.plugins = pluginFolders[found]
	if err := os.Mkdir(r.varLib, 0o755); err != nil {
		w.t.Fatal(err)
	}
	w.eventually(func() error {
		text, err := os.ReadFile(h.CNIConfFile)
		if err != nil {
			return err
		}
		return json.Unmarshal(text, &r.list)
	})
	return r
}

// add creates a pod.
func (r *podRuntime) add(label string, ports ...portMapping) *pod {
	t := r.w.t
	t.Helper()
	ns := kerneltest.NewNS(t, r.host.Name+"-"+label)
	p := &pod{Pod: clustertest.Pod{Host: r.host, NS: ns}, runtime: r, ports: ports}
	p.do("ADD")
	env, err := envfile.Read(r.host.SubnetFile)
	if err != nil {
		t.Fatal(err)
	}
	p.MTU = env.MTU
	var result struct {
		IPs []struct{ Address, Gateway string }
	}
	if err := json.Unmarshal(p.result, &result); err != nil {
		t.Fatal(err)
	}
	for _, ip := range result.IPs {
		a, err := netip.ParsePrefix(ip.Address)
		if err != nil {
			t.Fatal(err)
		}
		f := subnet.FamilyOf(a.Addr())
		p.Addr[f] = a.Addr()
		if gateway := env.Subnets[f]; !gateway.Contains(a.Addr()) || ip.Gateway != gateway.Addr().String() {
			t.Errorf("%s has %s with the gateway %s, and its host %s", p.NS.Name, a, ip.Gateway, gateway)
		}
	}
	if link := p.NS.IP(t, "link show eth0"); !strings.Contains(link, fmt.Sprintf("mtu %d ", p.MTU)) {
		t.Errorf("the MTU is not %d: %s", p.MTU, link)
	}
	return p
}

// do runs a command of all plugins, each with the result of the one before. To
// delete, it runs them in reverse, each with the result of all.
func (p *pod) do(command string) {
	t := p.runtime.w.t
	t.Helper()
	plugins := slices.Clone(p.runtime.list.Plugins)
	if command == "DEL" {
		slices.Reverse(plugins)
	}
	for _, plugin := range plugins {
		out, err := p.call(command, plugin)
		if err != nil {
			t.Fatal(err)
		}
		if command == "ADD" {
			p.result = out
		}
	}
}

func (p *pod) call(command string, plugin map[string]any) ([]byte, error) {
	r := p.runtime
	conf := map[string]any{"cniVersion": r.list.CNIVersion, "name": r.list.Name}
	for key, value := range plugin {
		conf[key] = value
	}
	delete(conf, "capabilities")
	if can, _ := plugin["capabilities"].(map[string]any); can["portMappings"] == true && len(p.ports) > 0 {
		conf["runtimeConfig"] = map[string]any{"portMappings": p.ports}
	}
	if p.result != nil {
		conf["prevResult"] = p.result
	}
	input, err := json.Marshal(conf)
	if err != nil {
		return nil, err
	}
	cmd := r.host.NS.Command("sh", "-c", cniView, "sh", r.varLib, filepath.Join(r.plugins, fmt.Sprint(plugin["type"])))
	cmd.Env = append(os.Environ(), "CNI_COMMAND="+command, "CNI_CONTAINERID="+p.NS.Name, "CNI_NETNS="+p.NS.Path, "CNI_IFNAME=eth0", "CNI_PATH="+r.plugins)
	cmd.Stdin = bytes.NewReader(input)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s of %v for %s: %w: %s%s", command, plugin["type"], p, err, &out, &said)
	}
	return out.Bytes(), nil
}

// left returns what remains of a pod on its host: rules, an interface, addresses.
func (p *pod) left() (lines []string) {
	t, r := p.runtime.w.t, p.runtime
	t.Helper()
	var mine []string // substrings that identify the pod's lines
	for _, a := range p.Addr {
		if a.IsValid() {
			mine = append(mine, a.String())
		}
	}
	mine = append(mine, p.NS.Name)
	for _, command := range []string{"iptables-save", "ip6tables-save"} {
		out, err := r.host.NS.Command(command).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v: %s", command, err, out)
		}
		for line := range strings.Lines(string(out)) {
			if slices.ContainsFunc(mine, func(m string) bool { return strings.Contains(line, m) }) {
				lines = append(lines, command+": "+line)
			}
		}
	}
	for line := range strings.Lines(r.host.NS.IP(t, "-o link show master cni0")) {
		lines = append(lines, "on the bridge: "+line)
	}
	err := filepath.WalkDir(filepath.Join(r.varLib, "cni/networks"), func(path string, d fs.DirEntry, err error) error {
		if a, none := netip.ParseAddr(d.Name()); none == nil && slices.Contains(mine, a.String()) {
			lines = append(lines, "of host-local: "+path)
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if out, err := p.NS.Command("ip", "-o", "link", "show", "eth0").Output(); err == nil {
		lines = append(lines, "in the pod: "+string(out))
	} else if !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return lines
}
