package e2e

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tulle-net/tulle/pkg/kube/apitest"
	"github.com/tulle-net/tulle/pkg/test/clustertest"
)

const (
	// garbageNodes is how many Nodes with annotations that a node never writes
	// TestGarbageNodes creates.
	garbageNodes = 5_000
	annotation   = "flannel.alpha.coreos.com/"
)

// TestGarbageNodes does what TestGarbageKeys does, with the annotations of a Kubernetes
// cluster's Nodes.
func TestGarbageNodes(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, clustertest.Options{Hosts: 2})
	w := &world{Cluster: c, t: t, daemons: make(map[*clustertest.Host]*clustertest.Daemon)}
	api, url := serveNodes(t, c.EtcdHost())
	config := filepath.Join(t.TempDir(), "net-conf.json")
	if err := os.WriteFile(config, []byte(vxlan), 0o644); err != nil {
		t.Fatal(err)
	}
	tulled := unraced(t)
	start := func(h *clustertest.Host) {
		command := clustertest.Command{Argv: tulled.Argv, Env: []string{"NODE_NAME=" + h.Name}}
		w.daemons[h] = h.Start(command, "--kube-subnet-mgr", "--kube-api-url="+url, "--net-config-path="+config, "--set-node-network-unavailable=false",
			"--subnet-file="+h.SubnetFile, "--state-dir="+h.StateDir, "--cni-conf-file="+h.CNIConfFile)
		w.daemons[h].WaitLog("Kernel in sync with all peers")
		h.AddPod()
	}
	api.Do(func() {
		for i, h := range w.Hosts {
			api.Change("ADDED", nodeOf(h.Name, fmt.Sprintf("10.5.%d.0/24", i), nil))
		}
	})
	watches, lists := w.Hosts[0], w.Hosts[1]
	start(watches)
	before := w.daemons[watches].PeakMemory()
	api.Do(func() {
		for i := range garbageNodes {
			api.Change("ADDED", garbageNode(i))
		}
	})
	start(lists)
	for _, h := range w.Hosts {
		w.bearsGarbage(h, garbageNodes, before)
	}
	w.Matrix()
}

// serveNodes serves an API server of Nodes on a host, at the URL that it returns.
func serveNodes(t *testing.T, h *clustertest.Host) (api *apitest.Server, url string) {
	t.Helper()
	api = apitest.New(t)
	var listener net.Listener
	h.NS.Do(t, func() (err error) {
		listener, err = net.Listen("tcp", clustertest.EtcdAddrs(1)[0].String()+":0")
		return err
	})
	server := &http.Server{Handler: api}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Close()
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return api, "http://" + listener.Addr().String()
}

// nodeOf returns a Node with a podCIDR and the network's annotations.
func nodeOf(name, cidr string, annotations map[string]string) *corev1.Node {
	n := apitest.SmallNode(0)
	n.Name, n.UID = name, types.UID("uid-"+name)
	n.Spec.PodCIDR, n.Spec.PodCIDRs = cidr, []string{cidr}
	n.Status.Addresses = nil
	n.Annotations = make(map[string]string)
	for key, value := range annotations {
		n.Annotations[annotation+key] = value
	}
	return n
}

// garbageNode returns a Node that takes part in the network and publishes garbage.
func garbageNode(i int) *corev1.Node {
	all := map[string]string{
		"kube-subnet-manager": "true", "backend-type": "vxlan", "public-ip": "198.18.9.9",
		"backend-data": `{"VNI":1,"VtepMAC":"3a:00:00:00:00:f0"}`,
	}
	cidr := fmt.Sprintf("10.5.%d.%d/30", 128+i>>6, i<<2&255)
	switch i % 5 {
	case 0:
		all["public-ip"] = strings.Repeat("garbage ", 1000)
	case 1:
		all["backend-data"] = strings.Repeat("[", 2000)
	case 2:
		all["tulle"] = strings.Repeat("x", 100)
	case 3:
		all["tulle-subnets"] = "garbage,10.5.0.0/24,10.5.0.0/24"
		cidr = fmt.Sprintf("10.6.%d.%d/30", i>>6, i<<2&255) // outside the network
	case 4:
		all["backend-type"] = strings.Repeat("vxlan", 1000)
	}
	return nodeOf(fmt.Sprintf("garbage-%d", i), cidr, all)
}
