//go:build kube

package e2e

import (
	"net/http"
	"testing"

	"github.com/tulle-net/tulle/pkg/test/clustertest"
	"github.com/tulle-net/tulle/subnet"
)

// addresses writes a host's addresses into its Node, by kind.
func (k *kubeWorld) addresses(h *clustertest.Host, pairs ...string) {
	k.t.Helper()
	var all []any
	for i := 0; i < len(pairs); i += 2 {
		all = append(all, map[string]any{"type": pairs[i], "address": pairs[i+1]})
	}
	k.api.Do(http.MethodPatch, nodesPath+"/"+h.Name+"/status", map[string]any{"status": map[string]any{"addresses": all}}, nil)
}

// TestKubeAddressesAreFollowed checks that a daemon publishes the addresses of its
// Node, and follows changes of them.
func TestKubeAddressesAreFollowed(t *testing.T) {
	t.Parallel()
	k := newKubeWorld(t, 1, network4, false)
	h := k.Hosts[0]
	main := h.Addr[subnet.IPv4].String()
	h.NS.IP(t, "link add second type bridge")
	h.NS.IP(t, "addr add 198.19.0.1/24 dev second")
	h.NS.IP(t, "link set second up")
	k.register(h)
	k.addresses(h, "InternalIP", "198.19.0.1", "ExternalIP", "203.0.113.7")

	k.start(h, "--iface-from-node-ip")
	k.annotated(h.Name, "public-ip", "198.19.0.1")
	k.says(h, "second", "--iface-from-node-ip (198.19.0.1)", "!NOT READY")
	k.addresses(h, "InternalIP", main, "ExternalIP", "203.0.113.7")
	k.annotated(h.Name, "public-ip", main)
	k.says(h, "eth0", "!NOT READY")
	k.daemons[h].Stop()

	k.start(h, "--public-ip-from=external")
	k.annotated(h.Name, "public-ip", "203.0.113.7")
	k.says(h, "published as 203.0.113.7", "!NOT READY")
	k.addresses(h, "InternalIP", main, "ExternalIP", "203.0.113.8")
	k.annotated(h.Name, "public-ip", "203.0.113.8")
	k.addresses(h, "InternalIP", main)
	k.annotated(h.Name, "public-ip", main)
}

// TestKubeWholeNetwork gives the only node of a small cluster the whole network as its
// podCIDR.
func TestKubeWholeNetwork(t *testing.T) {
	t.Parallel()
	k := newKubeWorld(t, 1, `{"Network": "10.5.9.0/24", "Backend": {"Type": "vxlan"}}`, false)
	h := k.Hosts[0]
	k.register(h, "10.5.9.0/24")
	k.start(h)
	k.says(h, "10.5.9.0/24", "!NOT READY")
	h.AddPod()
	h.AddPod()
	k.Reach(h.Pods[0], h.Pods[1])
	k.daemons[h].Kill()
	k.restart(h)
	k.says(h, "10.5.9.0/24", "!NOT READY")
	k.Reach(h.Pods[1], h.Pods[0])
}
