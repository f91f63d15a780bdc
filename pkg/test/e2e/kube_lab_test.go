//go:build kube

package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tulle-net/tulle/pkg/test/clustertest"
	"github.com/tulle-net/tulle/pkg/test/kubetest"
)

const (
	notes     = "flannel.alpha.coreos.com/"
	nodesPath = "/api/v1/nodes"

	dualNetwork = `{"Network": "10.5.0.0/16", "EnableIPv6": true, "IPv6Network": "fd00:5::/48", "EnableNFTables": true, "Backend": {"Type": "vxlan"}}`
	network4    = `{"Network": "10.5.0.0/16", "EnableNFTables": true, "Backend": {"Type": "vxlan"}}`
)

// clusterCIDRs are the networks from which Nodes get their podCIDRs.
var clusterCIDRs = []string{"10.5.0.0/16", "fd00:5::/48"}

// kubeRules are all RBAC rules of a daemon.
var kubeRules = []kubetest.Rule{
	{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get", "list", "watch"}},
	{APIGroups: []string{""}, Resources: []string{"nodes/status"}, Verbs: []string{"patch"}},
	{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create"}},
}

// kubeWorld is a world whose leases are in the Nodes of a control plane.
type kubeWorld struct {
	*world
	api    *kubetest.Cluster
	proxy  *kubetest.Proxy // a proxy that the daemons use, if there is one
	config string          // path of the network's config
	tokens map[*clustertest.Host]*kubeToken
}

// kubeToken is a daemon's token for the API server.
type kubeToken struct {
	kubetest.Token
	file, kubeconfig string
}

// newKubeWorld creates hosts and a control plane. change may change the control plane's
// options.
func newKubeWorld(t *testing.T, hosts int, config string, proxied bool, change ...func(*kubetest.Options)) *kubeWorld {
	t.Helper()
	c := clustertest.New(t, clustertest.Options{Hosts: hosts})
	k := &kubeWorld{
		world:  &world{Cluster: c, t: t, daemons: make(map[*clustertest.Host]*clustertest.Daemon)},
		config: filepath.Join(t.TempDir(), "net-conf.json"), tokens: make(map[*clustertest.Host]*kubeToken),
	}
	o := kubetest.Options{Namespace: c.EtcdHost().NS.Name, Address: clustertest.EtcdAddrs(1)[0], ClusterCIDRs: clusterCIDRs}
	for _, f := range change {
		f(&o)
	}
	k.api = kubetest.Start(t, o)
	if proxied {
		k.proxy = k.api.Proxy()
	}
	k.configure(config)
	return k
}

// newKubeNetwork returns a world with a Node, a daemon and a pod on every host. All
// of them reach one another.
func newKubeNetwork(t *testing.T, hosts int, config string, proxied bool) *kubeWorld {
	t.Helper()
	k := newKubeWorld(t, hosts, config, proxied)
	for _, h := range k.Hosts {
		k.register(h)
		k.start(h)
	}
	for _, h := range k.Hosts {
		h.AddPod()
	}
	k.Matrix()
	k.stranger(known, 250)
	k.eventually(func() error { return k.allHave("10.5.250.0", true) })
	for _, h := range k.Hosts {
		k.daemons[h].WaitLog("Kernel in sync with all peers")
		k.available(h, true)
	}
	return k
}

// configure writes a config into the file that the daemons read, as a kubelet does.
func (k *kubeWorld) configure(config string) {
	k.t.Helper()
	if err := os.WriteFile(k.config+".new", []byte(config), 0o644); err != nil {
		k.t.Fatal(err)
	}
	if err := os.Rename(k.config+".new", k.config); err != nil {
		k.t.Fatal(err)
	}
}

// register creates a host's Node, as its kubelet does. If podCIDRs is empty, the
// cluster assigns them.
func (k *kubeWorld) register(h *clustertest.Host, cidrs ...string) {
	k.t.Helper()
	addresses := []any{map[string]any{"type": "Hostname", "address": h.Name}}
	for _, a := range h.Addr {
		addresses = append(addresses, map[string]any{"type": "InternalIP", "address": a.String()})
	}
	// Every kubelet annotates its Node, and flannel crashes on one without annotations.
	k.makeNode(h.Name, map[string]string{"volumes.kubernetes.io/controller-managed-attach-detach": "true"}, map[string]any{"addresses": addresses}, cidrs...)
}

func (k *kubeWorld) makeNode(name string, annotations map[string]string, status map[string]any, cidrs ...string) {
	k.t.Helper()
	spec := map[string]any{}
	if len(cidrs) > 0 {
		spec = map[string]any{"podCIDR": cidrs[0], "podCIDRs": cidrs}
	}
	k.api.Do(http.MethodPost, nodesPath, map[string]any{
		"metadata": map[string]any{"name": name, "annotations": annotations}, "spec": spec, "status": status,
	}, nil)
}

func (k *kubeWorld) unregister(name string) {
	k.t.Helper()
	k.api.Do(http.MethodDelete, nodesPath+"/"+name, nil, nil)
}

// kubeNode is the part of a Node that the tests read.
type kubeNode struct {
	Metadata struct {
		UID             string
		ResourceVersion string
		Annotations     map[string]string
	}
	Spec   struct{ PodCIDRs []string }
	Status struct {
		Conditions []struct{ Type, Status, Reason, Message string }
	}
}

func (k *kubeWorld) node(name string) (n kubeNode) {
	k.t.Helper()
	k.api.Do(http.MethodGet, nodesPath+"/"+name, nil, &n)
	return n
}

// published returns the network's annotations of all Nodes by podCIDRs.
func (k *kubeWorld) published() (map[string]string, error) {
	var list struct{ Items []kubeNode }
	if err := k.api.Try(http.MethodGet, nodesPath, nil, &list); err != nil {
		return nil, err
	}
	all := make(map[string]string)
	for _, n := range list.Items {
		maps.DeleteFunc(n.Metadata.Annotations, func(name, _ string) bool { return !strings.HasPrefix(name, notes) })
		text, err := json.Marshal(n.Metadata.Annotations)
		if err != nil {
			return nil, err
		}
		all[strings.Join(n.Spec.PodCIDRs, ",")] = string(text)
	}
	return all, nil
}

// samePublished waits until the Nodes have exactly these annotations.
func (k *kubeWorld) samePublished(want map[string]string) {
	k.t.Helper()
	k.eventually(func() error {
		now, err := k.published()
		if err == nil && !maps.Equal(now, want) {
			err = fmt.Errorf("the Nodes publish %v, and published %v", now, want)
		}
		return err
	})
}

// annotate writes annotations as a person would; "" removes one.
func (k *kubeWorld) annotate(node string, all map[string]string) {
	k.t.Helper()
	change := make(map[string]*string)
	for name, value := range all {
		change[notes+name] = nil
		if value != "" {
			change[notes+name] = &value
		}
	}
	k.api.Do(http.MethodPatch, nodesPath+"/"+node, map[string]any{"metadata": map[string]any{"annotations": change}}, nil)
}

// annotated waits until an annotation of a Node has this value; "" means that it has
// none.
func (k *kubeWorld) annotated(node, name, want string) {
	k.t.Helper()
	k.eventually(func() error {
		if n := k.node(node); n.Metadata.Annotations[notes+name] != want {
			return fmt.Errorf("%s of %s is %q, and not %q", name, node, n.Metadata.Annotations[notes+name], want)
		}
		return nil
	})
}

// available waits until a host's Node reports whether the network works.
func (k *kubeWorld) available(h *clustertest.Host, want bool) {
	k.t.Helper()
	k.eventually(func() error {
		n := k.node(h.Name)
		for _, c := range n.Status.Conditions {
			if c.Type != "NetworkUnavailable" {
				continue
			}
			if want && c.Status == "False" && c.Reason == "FlannelIsUp" || !want && c.Status == "True" && c.Reason == "TulleNotReady" {
				return nil
			}
		}
		return fmt.Errorf("the conditions of %s are %+v", h.Name, n.Status.Conditions)
	})
}

// token returns a host's token. The first call creates it.
func (k *kubeWorld) token(h *clustertest.Host) *kubeToken {
	k.t.Helper()
	if t := k.tokens[h]; t != nil {
		return t
	}
	account := "tulle-" + h.Name
	k.api.ServiceAccount("kube-system", account, kubeRules...)
	url := k.api.URL
	if k.proxy != nil {
		url = k.proxy.URL
	}
	t := &kubeToken{file: filepath.Join(k.t.TempDir(), "token")}
	k.tokens[h] = t
	k.rotate(h)
	t.kubeconfig = k.api.KubeconfigAt(url, t.file)
	return t
}

// rotate gives a host another token, and returns the previous one.
func (k *kubeWorld) rotate(h *clustertest.Host) kubetest.Token {
	k.t.Helper()
	t := k.tokens[h]
	before := t.Token
	t.Token = k.api.Token("kube-system", "tulle-"+h.Name)
	if err := os.WriteFile(t.file+".new", []byte(t.Text), 0o600); err != nil {
		k.t.Fatal(err)
	}
	if err := os.Rename(t.file+".new", t.file); err != nil {
		k.t.Fatal(err)
	}
	return before
}

// impatient makes client-go detect a dead connection within seconds. By default that
// takes 45 s.
var impatient = []string{"HTTP2_READ_IDLE_TIMEOUT_SECONDS=3", "HTTP2_PING_TIMEOUT_SECONDS=2"}

// start runs tulled on a host.
func (k *kubeWorld) start(h *clustertest.Host, flags ...string) *clustertest.Daemon {
	k.t.Helper()
	command := clustertest.Command{Argv: tulled.Argv, Env: append([]string{"NODE_NAME=" + h.Name}, impatient...)}
	d := h.Start(command, append([]string{
		"--kube-subnet-mgr", "--kubeconfig-file=" + k.token(h).kubeconfig, "--net-config-path=" + k.config,
		"--subnet-file=" + h.SubnetFile, "--state-dir=" + h.StateDir, "--cni-conf-file=" + h.CNIConfFile, "--healthz-port=10256",
	}, flags...)...)
	k.daemons[h] = d
	return d
}

// restart starts a daemon that has ended, and waits until its kernel is in sync.
func (k *kubeWorld) restart(h *clustertest.Host, flags ...string) {
	k.t.Helper()
	k.start(h, flags...).WaitLog("Kernel in sync with all peers")
}

// says waits until the output of tulled status on a host contains all parts, and none
// of not.
func (k *kubeWorld) says(h *clustertest.Host, parts ...string) {
	k.t.Helper()
	k.eventually(func() error {
		out, _ := k.command(h, "status")
		for _, part := range parts {
			without, negated := strings.CutPrefix(part, "!")
			if strings.Contains(out, without) == negated {
				return fmt.Errorf("%s: %q is or is not in\n%s", h.Name, part, out)
			}
		}
		return nil
	})
}

// strangerMAC returns the MAC of a stranger by its number.
func strangerMAC(number int) string { return fmt.Sprintf("3a:00:00:00:00:%02x", number) }

// stranger creates a Node without a host.
func (k *kubeWorld) stranger(name string, number int) {
	k.t.Helper()
	k.makeNode(name, map[string]string{
		notes + "kube-subnet-manager": "true", notes + "backend-type": "vxlan", notes + "public-ip": fmt.Sprintf("198.18.0.%d", number),
		notes + "public-ipv6":     fmt.Sprintf("fd00:18::%x", number),
		notes + "backend-data":    `{"VNI":1,"VtepMAC":"` + strangerMAC(number) + `"}`,
		notes + "backend-v6-data": `{"VNI":1,"VtepMAC":"3a:00:00:00:01:` + fmt.Sprintf("%02x", number) + `"}`,
	}, nil, fmt.Sprintf("10.5.%d.0/24", number), fmt.Sprintf("fd00:5:0:%x::/64", number))
}

// given waits until the cluster has assigned a host's Node its podCIDRs.
func (k *kubeWorld) given(h *clustertest.Host) {
	k.t.Helper()
	k.eventually(func() error {
		if n := k.node(h.Name); len(n.Spec.PodCIDRs) != len(clusterCIDRs) {
			return fmt.Errorf("%s has the podCIDRs %v", h.Name, n.Spec.PodCIDRs)
		}
		return nil
	})
}

// known is the stranger that follows changes.
const known = "known"

// follows checks that the daemons follow changes in the cluster: a Node gets another
// MAC, and then the previous one again.
func (k *kubeWorld) follows() {
	k.t.Helper()
	for _, number := range []int{249, 250} {
		k.annotate(known, map[string]string{"backend-data": `{"VNI":1,"VtepMAC":"` + strangerMAC(number) + `"}`})
		k.eventually(func() error { return k.allHave(strangerMAC(number), true) })
	}
}

// everyPair returns pings between the first pods of all hosts.
func (k *kubeWorld) everyPair() *streams {
	s := &streams{w: k.world}
	for _, from := range k.Hosts {
		for _, to := range k.Hosts {
			if from != to {
				s.each = append(s.each, k.pings(from, to).each...)
			}
		}
	}
	return s
}

// keys returns the subnets of all hosts.
func (k *kubeWorld) keys() (all []string) {
	k.t.Helper()
	for _, h := range k.Hosts {
		all = append(all, k.key(h))
	}
	return all
}

// sameKeys fails the test if a host has changed its subnet.
func (k *kubeWorld) sameKeys(want []string) {
	k.t.Helper()
	if now := k.keys(); !slices.Equal(now, want) {
		k.t.Errorf("the subnets are %v, and were %v", now, want)
	}
}
