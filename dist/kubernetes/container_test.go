//go:build kube

package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/test/clustertest"
	"github.com/tulle-net/tulle/pkg/test/dockertest"
	"github.com/tulle-net/tulle/pkg/test/kubetest"
	"github.com/tulle-net/tulle/subnet"
)

// TestContainers runs daemons on hosts as the DaemonSet does: in containers of the
// release's image, with its arguments, capabilities, mounts and token and no more,
// under the default seccomp profile. They give both families a network.
func TestContainers(t *testing.T) {
	files := image(t)
	l := newLab(t, kubetest.Options{})
	rendered, err := chart("tulle", namespace, "namespace: {create: true}\nnetwork: {ipv6: \"fd00:10:244::/56\"}")
	if err != nil {
		t.Fatal(err)
	}
	manifest := objects(t, rendered)
	l.apply(manifest)
	spec := find[daemonSet](t, manifest, "DaemonSet").Spec.Template.Spec
	config := find[struct{ Data map[string]string }](t, manifest, "ConfigMap").Data
	control := dockertest.ControlGroup(t)
	c := clustertest.New(t, clustertest.Options{Hosts: 2})
	var nodes []*node
	for i, h := range c.Hosts {
		l.node(h.Name, fmt.Sprintf("10.244.%d.0/24", i+1), fmt.Sprintf("fd00:10:244:%d::/64", i+1))
		n := &node{Docker: dockertest.New(t, h, control), host: h, lab: l, spec: spec}
		n.Start("--bridge=none", "--iptables=false", "--ip6tables=false")
		n.mounts = map[string]string{
			"config": n.folder("config", config), "token": n.folder("token", l.credentials(l.pod(manifest, h.Name))),
			"state": h.StateDir, "cni-conf": filepath.Dir(h.CNIConfFile), "cni-bin": t.TempDir(),
			"run-flannel": "/run/flannel", "run-tulle": "/run/tulle", "sysctls": "/proc/sys/net",
		}
		n.Run(files, "import", "--change", `ENTRYPOINT ["/tulled"]`, "-", "tulle:test")
		proxy(t, h, l.URL)
		nodes = append(nodes, n)
	}

	for _, n := range nodes {
		out := n.container(spec.InitContainers[0], "--rm")
		for _, plugin := range []string{"bridge", "host-local", "loopback", "portmap"} {
			if info, err := os.Stat(filepath.Join(n.mounts["cni-bin"], plugin)); err != nil || info.Mode() != 0o755 {
				t.Errorf("%s on %s: %v %v: %s", plugin, n.host.Name, info, err, out)
			}
		}
		n.container(spec.Containers[0], "--detach")
	}
	for _, n := range nodes {
		n.ready()
		n.host.AddPod()
	}
	c.Matrix()
	for i, n := range nodes {
		if text, err := os.ReadFile(filepath.Join(n.mounts["cni-conf"], "10-flannel.conflist")); err != nil || !strings.Contains(string(text), fmt.Sprintf(`"10.244.%d.0/24"`, i+1)) {
			t.Errorf("the CNI configuration of %s is %q, %v", n.host.Name, text, err)
		}
		for path, want := range map[string]string{"net/ipv4/ip_forward": "1", "net/ipv6/conf/all/forwarding": "1"} {
			if is := n.host.NS.Setting(t, path); is != want {
				t.Errorf("%s of %s is %s", path, n.host.Name, is)
			}
		}
		kerneltest.Eventually(t, patience, func() error { return n.up() })
		for path, want := range map[string]string{"healthz": "ok", "readyz": "readyz check passed", "metrics": "tulle_ready 1"} {
			if text := n.get(path); !strings.Contains(text, want) {
				t.Errorf("%s of %s: %s", path, n.host.Name, text)
			}
		}
		log := n.says("logs", "tulled")
		for _, word := range []string{"ermission", "not permitted", "ead-only", "orbidden", "panic"} {
			if strings.Contains(log, word) {
				t.Errorf("%s: %s", n.host.Name, log)
			}
		}
	}

	// The container is deleted and re-created, as for another version.
	s := c.Ping(c.Hosts[0].Pods[0], c.Hosts[1].Pods[0], subnet.IPv6)
	nodes[0].Run(nil, "rm", "--force", "tulled")
	nodes[0].container(spec.InitContainers[0], "--rm")
	nodes[0].container(spec.Containers[0], "--detach")
	nodes[0].ready()
	if r := s.Stop(); r.Lost != 0 {
		t.Error(r)
	}

	// It cleans up as the page describes.
	nodes[0].Run(nil, "rm", "--force", "tulled")
	cleanup := spec.Containers[0]
	cleanup.Args = []string{"cleanup", "--flannel", "--cni-conf-file=/etc/cni/net.d/10-flannel.conflist"}
	nodes[0].container(cleanup, "--rm")
	if links := nodes[0].host.NS.IP(t, "link show"); strings.Contains(links, "tulle.1") {
		t.Errorf("cleaned up, and there is %s", links)
	}
	if out := nodes[0].container(cleanup, "--rm"); !strings.Contains(out, "this host has nothing of tulle's") {
		t.Errorf("cleaned up twice: %s", out)
	}

	changeToUDP(t, c, nodes)

	// The container needs everything that it gets: without any of it, it reports what is
	// missing.
	for _, c := range []struct {
		what, want string
		without    func(*container)
	}{
		{"NET_ADMIN", "not permitted", func(c *container) { c.SecurityContext.Capabilities.Add = []string{"NET_RAW"} }},
		{"/host/proc/sys/net", "sysctl -w", func(c *container) {
			c.VolumeMounts = slices.DeleteFunc(slices.Clone(c.VolumeMounts), func(m mount) bool { return m.Name == "sysctls" })
		}},
	} {
		n := nodes[1]
		n.Run(nil, "rm", "--force", "tulled")
		if strings.Contains(n.host.NS.IP(t, "link show"), "tulle.1") {
			n.host.NS.IP(t, "link del tulle.1")
		}
		n.host.NS.Sysctl(t, "net/ipv4/ip_forward", "0")
		less := spec.Containers[0]
		c.without(&less)
		n.container(less, "--detach")
		kerneltest.Eventually(t, patience, func() error {
			if text, err := n.status(); !strings.Contains(text, c.want) {
				return fmt.Errorf("without %s: %v: %s", c.what, err, text)
			}
			return nil
		})
	}
}

// changeToUDP gives the nodes another backend, for which the pod gets a device. Without it,
// the daemon reports that. Then it gives them the first backend again.
func changeToUDP(t *testing.T, c *clustertest.Cluster, nodes []*node) {
	rendered, err := chart("tulle", namespace, "network: {ipv6: \"fd00:10:244::/56\", backend: {Type: udp}}")
	if err != nil {
		t.Fatal(err)
	}
	manifest := objects(t, rendered)
	daemon := find[daemonSet](t, manifest, "DaemonSet").Spec.Template.Spec.Containers[0]
	config := find[struct{ Data map[string]string }](t, manifest, "ConfigMap").Data
	for _, n := range nodes {
		n.says("rm", "--force", "tulled")
		n.mounts["config"], n.mounts["tun"] = n.folder("config-udp", config), "/dev/net/tun"
		n.container(daemon, "--detach")
	}
	for _, n := range nodes {
		n.ready()
	}
	c.Matrix()
	less := daemon
	less.VolumeMounts = slices.DeleteFunc(slices.Clone(daemon.VolumeMounts), func(m mount) bool { return m.Name == "tun" })
	nodes[1].Run(nil, "rm", "--force", "tulled")
	nodes[1].container(less, "--detach")
	kerneltest.Eventually(t, patience, func() error {
		if text, err := nodes[1].status(); !strings.Contains(text, "/dev/net/tun: no such file") {
			return fmt.Errorf("without /dev/net/tun: %v: %s", err, text)
		}
		return nil
	})
	for _, n := range nodes {
		n.says("rm", "--force", "tulled")
		n.mounts["config"] = filepath.Join(filepath.Dir(n.mounts["config"]), "config")
		n.container(n.spec.Containers[0], "--detach")
	}
	for _, n := range nodes {
		n.ready()
	}
}

// node is a host with a dockerd in place of the kubelet.
type node struct {
	*dockertest.Docker
	lab
	host   *clustertest.Host
	spec   podSpec
	mounts map[string]string // where the host has a volume
}

// folder creates a folder with files for a volume.
func (n *node) folder(name string, files map[string]string) string {
	n.lab.t.Helper()
	folder := filepath.Join(n.host.Dir, "volumes", name)
	err := os.MkdirAll(folder, 0o755)
	for file, text := range files {
		err = errors.Join(err, os.WriteFile(filepath.Join(folder, file), []byte(text), 0o644))
	}
	if err != nil {
		n.lab.t.Fatal(err)
	}
	return folder
}

// container runs a container of the pod, as far as docker can do what a kubelet does.
func (n *node) container(c container, how string) string {
	n.lab.t.Helper()
	server, err := url.Parse(n.URL)
	if err != nil {
		n.lab.t.Fatal(err)
	}
	args := []string{"run", how, "--network=host", "--user=0:0", "--restart=no", "--env=KUBERNETES_SERVICE_HOST=" + server.Hostname(), "--env=KUBERNETES_SERVICE_PORT=" + server.Port()}
	if how == "--detach" {
		args = append(args, "--name="+c.Name)
	}
	s := c.SecurityContext
	if !s.AllowPrivilegeEscalation {
		args = append(args, "--security-opt=no-new-privileges")
	}
	if s.ReadOnlyRootFilesystem {
		args = append(args, "--read-only")
	}
	for _, name := range s.Capabilities.Drop {
		args = append(args, "--cap-drop="+name)
	}
	for _, name := range s.Capabilities.Add {
		args = append(args, "--cap-add="+name)
	}
	for _, v := range c.Env {
		if v.Name == "NODE_NAME" {
			v.Value = n.host.Name
		}
		args = append(args, "--env="+v.Name+"="+v.Value)
	}
	for _, m := range c.VolumeMounts {
		volume := n.mounts[m.Name] + ":" + m.MountPath
		if m.ReadOnly {
			volume += ":ro"
		}
		args = append(args, "--volume="+volume)
	}
	return n.Run(nil, append(append(args, "tulle:test"), c.Args...)...)
}

// says returns what a docker command writes, on both of its outputs.
func (n *node) says(args ...string) string {
	out, err := n.Try(nil, args...)
	if err != nil {
		return out + err.Error()
	}
	return out
}

// status returns the output of tulled status inside the container.
func (n *node) status() (string, error) { return n.Try(nil, "exec", "tulled", "/tulled", "status") }

// ready waits until the daemon is ready and nothing fails.
func (n *node) ready() {
	n.lab.t.Helper()
	kerneltest.Eventually(n.lab.t, patience, func() error {
		text, err := n.status()
		if err != nil {
			return fmt.Errorf("%w: %s %s", err, text, n.says("logs", "--tail=5", "tulled"))
		}
		for line := range strings.Lines(text) {
			name, _, _ := strings.Cut(line, ":")
			if !slices.Contains(healthy, name) {
				return fmt.Errorf("%s has more to say: %s", n.host.Name, text)
			}
		}
		return nil
	})
}

// healthy are the lines of a status without problems.
var healthy = []string{"tulled", "node", "network", "lease", "uplink", "peers", "store", "kernel", "firewall", "probes", "  tunnel"}

// up returns why the Node does not report its network as available.
func (n *node) up() error {
	var is corev1.Node
	n.Do(http.MethodGet, "/api/v1/nodes/"+n.host.Name, nil, &is)
	for _, c := range is.Status.Conditions {
		if c.Type == corev1.NodeNetworkUnavailable && c.Status == corev1.ConditionFalse && c.Reason == "FlannelIsUp" {
			return nil
		}
	}
	return fmt.Errorf("%s: %+v", n.host.Name, is.Status.Conditions)
}

// get sends a request to the daemon's health port as the kubelet on its host would.
func (n *node) get(path string) (text string) {
	n.lab.t.Helper()
	var conn net.Conn
	n.host.NS.Do(n.lab.t, func() (err error) {
		conn, err = net.Dial("tcp", "127.0.0.1:8479")
		return err
	})
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true, DialContext: func(context.Context, string, string) (net.Conn, error) { return conn, nil },
	}}
	r, err := client.Get("http://127.0.0.1:8479/" + path)
	if err != nil {
		n.lab.t.Error(err)
		return ""
	}
	defer r.Body.Close()
	out, err := io.ReadAll(r.Body)
	if err != nil {
		n.lab.t.Error(err)
	}
	return string(out)
}

// credentials returns the files of a volume with a pod's token.
func (l lab) credentials(token string) map[string]string {
	l.t.Helper()
	text, err := os.ReadFile(l.Kubeconfig(token))
	var doc struct {
		Clusters []struct {
			Cluster struct {
				CA string `json:"certificate-authority"`
			}
		}
	}
	if err == nil {
		err = json.Unmarshal(text, &doc)
	}
	if err == nil {
		text, err = os.ReadFile(doc.Clusters[0].Cluster.CA)
	}
	if err != nil {
		l.t.Fatal(err)
	}
	return map[string]string{"token": token, "ca.crt": string(text)}
}

// proxy makes the API server, which listens on loopback, reachable on a host under
// the same address.
func proxy(t *testing.T, h *clustertest.Host, server string) {
	t.Helper()
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := netip.ParseAddrPort(u.Host); err != nil {
		t.Fatal(err)
	}
	var listener net.Listener
	h.NS.Do(t, func() (err error) {
		listener, err = net.Listen("tcp", u.Host)
		return err
	})
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return // it has ended
			}
			go func() {
				defer from.Close()
				to, err := net.Dial("tcp", u.Host)
				if err != nil {
					return
				}
				defer to.Close()
				go func() {
					_, _ = io.Copy(to, from) // whichever side ends it
					to.Close()
				}()
				_, _ = io.Copy(from, to)
			}()
		}
	}()
}
