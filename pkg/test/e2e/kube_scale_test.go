//go:build kube

package e2e

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/kernel"
	"github.com/tulle-net/tulle/pkg/test/clustertest"
	"github.com/tulle-net/tulle/pkg/test/kubetest"
	"github.com/tulle-net/tulle/subnet"
)

// TestKubeScale measures the daemons as they are released, in turns, in a cluster of
// many Nodes on a real API server. It measures the time from their start until the
// kernel has all peers, and then the cost of all Nodes' heartbeats.
func TestKubeScale(t *testing.T) {
	s := newScale(t)
	var all []*kubeMeasured
	for _, peers := range s.sizes {
		t.Run(fmt.Sprint(peers), func(t *testing.T) {
			s.progress("making %d Nodes", peers)
			c := newKubeCrowd(t, peers)
			s.progress("one is %d bytes of JSON, %d of protobuf", c.nodeSize("application/json"), c.nodeSize("application/vnd.kubernetes.protobuf"))
			var here []*kubeMeasured
			for _, p := range s.programs {
				here = append(here, &kubeMeasured{program: p, peers: peers})
			}
			all = append(all, here...)
			for round := range s.rounds {
				for _, m := range here {
					s.progress("%d Nodes, %s, round %d", peers, m.name, round+1)
					c.kubeRound(m, round == s.rounds-1)
				}
			}
		})
		if t.Failed() {
			return
		}
	}
	s.reportKube(all)
}

// kubeMeasured are the measurements of a program in one cluster.
type kubeMeasured struct {
	program
	peers       int
	cold, again kubeStart
	beats       heartbeats
}

// kubeStart are the measurements of starts.
type kubeStart struct {
	start
	steady   []float64 // resident memory at settled, in MiB
	received []int64   // received through the host's interface until then, in bytes
}

// kubeCrowd is a cluster of many Nodes, without hosts.
type kubeCrowd struct {
	*crowd
	k *kubeWorld
}

func newKubeCrowd(t *testing.T, peers int) *kubeCrowd {
	t.Helper()
	c := clustertest.New(t, clustertest.Options{})
	k := &kubeWorld{
		world:  &world{Cluster: c, t: t, daemons: make(map[*clustertest.Host]*clustertest.Daemon)},
		config: filepath.Join(t.TempDir(), "net-conf.json"), tokens: make(map[*clustertest.Host]*kubeToken),
	}
	k.api = kubetest.Start(t, kubetest.Options{Namespace: c.EtcdHost().NS.Name, Address: clustertest.EtcdAddrs(1)[0]})
	k.configure(`{"Network": "10.0.0.0/8", "EnableNFTables": true, "Backend": {"Type": "vxlan"}}`)
	all := &kubeCrowd{&crowd{k.world, "vxlan", peers}, k}
	numbers := make(chan int)
	go func() {
		defer close(numbers)
		for n := range peers {
			numbers <- n + 1
		}
	}()
	all.each(numbers, all.make)
	if t.Failed() {
		t.FailNow()
	}
	return all
}

// each calls f for all numbers, several at the same time.
func (c *kubeCrowd) each(numbers <-chan int, f func(n int) error) {
	var wg sync.WaitGroup
	const workers = 8
	for range workers {
		wg.Go(func() {
			for n := range numbers {
				if err := f(n); err != nil {
					c.t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

func crowdName(number int) string { return fmt.Sprintf("node-%05d.example.org", number) }

// make creates the Node of a number as its kubelet, the cloud and its CNI daemon would.
// It is as large as a Node that has run for some time.
func (c *kubeCrowd) make(number int) error {
	l := c.of(number)
	name := crowdName(number)
	var images []any
	for i := range 50 {
		// Thirty images are on every Node and the rest on few, so that a server may
		// compress its lists.
		which := i
		if i >= 30 {
			which = i + number*20
		}
		digest := sha256.Sum256([]byte(fmt.Sprint(which)))
		name := fmt.Sprintf("registry.example.org/some-group/some-subgroup/some-component-%d", which)
		images = append(images, map[string]any{"sizeBytes": 123456789 + which, "names": []string{
			fmt.Sprintf("%s@sha256:%x", name, digest), fmt.Sprintf("%s:v1.%d.0-20260801.3-release", name, i),
		}})
	}
	resources := map[string]any{"cpu": "16", "memory": "65836212Ki", "pods": "110", "ephemeral-storage": "203056560Ki", "hugepages-1Gi": "0", "hugepages-2Mi": "0"}
	ip := l.PublicIP[subnet.IPv4].String()
	object := map[string]any{
		"metadata": map[string]any{
			"name": name,
			"labels": map[string]string{
				"kubernetes.io/hostname": name, "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux",
				"beta.kubernetes.io/arch": "amd64", "beta.kubernetes.io/os": "linux", "node.kubernetes.io/instance-type": "m5.4xlarge",
				"topology.kubernetes.io/region": "region-1", "topology.kubernetes.io/zone": fmt.Sprintf("region-1%c", 'a'+number%3), "example.org/pool": "general-purpose",
			},
			"annotations": map[string]string{
				"csi.volume.kubernetes.io/nodeid": `{"disk.csi.example.org":"` + name + `"}`, "node.alpha.kubernetes.io/ttl": "0",
				"volumes.kubernetes.io/controller-managed-attach-detach": "true",
			},
		},
		"spec": map[string]any{"podCIDR": l.Subnets[subnet.IPv4].String(), "podCIDRs": []string{l.Subnets[subnet.IPv4].String()}, "providerID": "cloud:///region-1/" + name},
		"status": map[string]any{
			"addresses": []any{map[string]any{"type": "InternalIP", "address": ip}, map[string]any{"type": "Hostname", "address": name}},
			"capacity":  resources, "allocatable": resources, "images": images, "conditions": conditionsAt(time.Now()),
			"daemonEndpoints": map[string]any{"kubeletEndpoint": map[string]any{"Port": 10250}},
			"nodeInfo": map[string]any{
				"machineID": strings.Repeat("0123456789abcdef", 2), "systemUUID": "ec2f0f1e-8c5e-4a5e-9d3b-0d6a2f7f1c11", "bootID": "3f0c9b1a-6f5e-4b0a-8a52-9f0e2d3c4b5a",
				"kernelVersion": "6.8.0-1021-generic", "osImage": "Ubuntu 24.04.2 LTS", "containerRuntimeVersion": "containerd://1.7.27",
				"kubeletVersion": "v1.34.10", "kubeProxyVersion": "", "operatingSystem": "linux", "architecture": "amd64",
			},
		},
	}
	if err := c.k.api.Try(http.MethodPost, nodesPath+"?fieldManager=kubelet", object, nil); err != nil {
		return err
	}
	return c.k.api.Try(http.MethodPatch, nodesPath+"/"+name+"/status?fieldManager=flanneld", map[string]any{"metadata": map[string]any{"annotations": map[string]string{
		notes + "kube-subnet-manager": "true", notes + "backend-type": l.BackendType, notes + "backend-data": l.BackendData[subnet.IPv4], notes + "public-ip": ip,
		notes + "tulle": fmt.Sprintf(`{"NodeID":%q,"NodeName":%q,"MTU":1450}`, name, name), notes + "tulle-subnets": l.Subnets[subnet.IPv4].String(),
	}}}, nil)
}

// conditionsAt returns the conditions that a kubelet reports.
func conditionsAt(now time.Time) (all []any) {
	at := now.UTC().Format(time.RFC3339)
	for _, c := range [][4]string{
		{"MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"},
		{"DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"},
		{"PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"},
		{"Ready", "True", "KubeletReady", "kubelet is posting ready status"},
	} {
		all = append(all, map[string]any{"type": c[0], "status": c[1], "reason": c[2], "message": c[3], "lastHeartbeatTime": at, "lastTransitionTime": "2026-08-01T10:00:00Z"})
	}
	return all
}

// nodeSize returns the size of a Node.
func (c *kubeCrowd) nodeSize(as string) int {
	c.t.Helper()
	r, err := http.NewRequest(http.MethodGet, c.k.api.URL+nodesPath+"/"+crowdName(1), nil)
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header.Set("Accept", as)
	a, err := c.k.api.Client().Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return len(text)
}

// kubeRound starts a program on a fresh host, ends it, and starts it again.
func (c *kubeCrowd) kubeRound(m *kubeMeasured, beats bool) {
	c.t.Helper()
	h := c.AddHosts(1)[0]
	k, err := kernel.New(h.NS.Path)
	if err != nil {
		c.t.Fatal(err)
	}
	defer k.Close()
	own := c.of(firstFresh - h.Number).Subnets[subnet.IPv4].String()
	c.k.register(h, own)
	state := c.t.TempDir() // the host's own disk is too small
	command := m.command
	command.Env = append(command.Env, "NODE_NAME="+h.Name)
	args := []string{"--kube-subnet-mgr", "--kubeconfig-file=" + c.k.token(h).kubeconfig, "--net-config-path=" + c.k.config, "--subnet-file=" + h.SubnetFile}
	if m.tulle {
		args = append(args, "--state-dir="+state, "--cni-conf-file="+h.CNIConfFile)
	}
	d := c.kubeRun(h, k, m, &m.cold, command, args)
	if m.tulle {
		if *scalePeers != "" {
			c.eventually(func() error {
				_, err := os.Stat(filepath.Join(state, "snapshot"))
				return err
			})
		}
		d.Stop()
		d = c.kubeRun(h, k, m, &m.again, command, args)
	}
	if beats {
		m.beats = c.beat(d, k)
	}
	d.Kill()
	c.k.unregister(h.Name)
	for _, link := range []string{"tulle.1", "flannel.1", clustertest.Uplink} {
		_ = h.NS.Command("ip", "link", "delete", link).Run() // it may never have existed
	}
}

// settled is how long after a start memory is measured.
const settled = 20 * time.Second

// kubeRun does what run does, for daemons that read Nodes.
func (c *kubeCrowd) kubeRun(h *clustertest.Host, k *kernel.Kernel, m *kubeMeasured, s *kubeStart, command clustertest.Command, args []string) *clustertest.Daemon {
	c.t.Helper()
	before := c.k.received(h)
	d := h.Start(command, args...)
	began := time.Now()
	if s == &m.cold {
		c.awaitRoutes(d)
		s.there = append(s.there, time.Since(began))
	}
	if m.tulle {
		d.WaitLog("Kernel in sync with all peers")
		s.said = append(s.said, time.Since(began))
	}
	s.cpu = append(s.cpu, d.CPU())
	c.wantAll(k)
	s.memory = append(s.memory, c.memory(d))
	s.received = append(s.received, c.k.received(h)-before)
	if *scalePeers != "" {
		<-time.After(settled)
		s.memory[len(s.memory)-1] = c.memory(d)
		s.steady = append(s.steady, residentNow(c.t, d.PID))
	}
	return d
}

// received returns how many bytes a host has received from others.
func (k *kubeWorld) received(h *clustertest.Host) int64 {
	k.t.Helper()
	var links []struct {
		Stats struct{ Rx struct{ Bytes int64 } } `json:"stats64"`
	}
	if err := json.Unmarshal([]byte(h.NS.IP(k.t, "-j -s link show dev "+clustertest.Uplink)), &links); err != nil || len(links) != 1 {
		k.t.Fatalf("%v: %v", links, err)
	}
	return links[0].Stats.Rx.Bytes
}
