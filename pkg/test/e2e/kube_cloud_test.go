//go:build kube

package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/tulle-net/tulle/pkg/cloud/aws/awstest"
	"github.com/tulle-net/tulle/pkg/controller/route"
	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/test/clustertest"
	"github.com/tulle-net/tulle/pkg/test/kubetest"
	"github.com/tulle-net/tulle/subnet"
)

const cloudNetwork = `{"Network": "10.5.0.0/16", "EnableIPv6": true, "IPv6Network": "fd00:5::/48", "EnableNFTables": true, "Backend": {"Type": "cloud"}}`

// cloudRules are the RBAC rules of a cloud's controllers, in addition to those of node
// IPAM.
var cloudRules = []kubetest.Rule{
	{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"delete"}},
	{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"get"}},
	{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"create"}},
	{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "patch"}, ResourceNames: route.PartNames("tulle-controller-routes")},
}

// kubeVPC is a cluster on AWS without kube-controller-manager and without a cloud
// controller manager.
type kubeVPC struct {
	*vpc
	k          *kubeWorld
	controller func() string // the path of tulle-controller
	kubeconfig string
	running    *kerneltest.Process
}

func newKubeVPC(t *testing.T) *kubeVPC {
	t.Helper()
	controller := buildController(t)
	k := newKubeWorld(t, 0, cloudNetwork, false, func(o *kubetest.Options) { o.ClusterCIDRs = nil })
	v := &kubeVPC{vpc: newVPC(k.world, 3, subnet.IPv4, subnet.IPv6), k: k, controller: controller}
	v.kubeconfig = k.api.ServiceAccount("kube-system", "tulle-controller", append(slices.Clone(kubetest.ControllerRules), cloudRules...)...)
	return v
}

// register creates a host's Node, as the kubelet of a cluster with an external cloud
// provider does.
func (v *kubeVPC) register(h *clustertest.Host) {
	v.t.Helper()
	i := v.instance(h)
	v.k.api.Do(http.MethodPost, nodesPath, map[string]any{
		"metadata": map[string]any{"name": h.Name, "annotations": map[string]string{"volumes.kubernetes.io/controller-managed-attach-detach": "true"}},
		"spec": map[string]any{
			"providerID": "aws:///" + i.Zone + "/" + i.ID,
			"taints":     []any{map[string]any{"key": "node.cloudprovider.kubernetes.io/uninitialized", "value": "true", "effect": "NoSchedule"}},
		},
		"status": map[string]any{"addresses": []any{map[string]any{"type": "InternalIP", "address": h.Addr[subnet.IPv4].String()}}},
	}, nil)
}

// control runs tulle-controller with all its controllers except that of Services, in
// place of the running one.
func (v *kubeVPC) control() {
	v.t.Helper()
	v.end()
	v.running = kerneltest.Launch(v.t, v.EtcdHost().NS.Name, v.aws.Env(), v.controller(), "--kubeconfig="+v.kubeconfig, "--healthz-port=0",
		"--controllers=*,-service-lb-controller", "--allocate-node-cidrs", "--cluster-cidr="+strings.Join(clusterCIDRs, ","), "--cloud-provider=aws", "--cluster-name="+cloudCluster)
	p := v.running
	v.t.Cleanup(func() {
		p.End(syscall.SIGKILL)
		if v.t.Failed() {
			v.t.Logf("tulle-controller: %s", p.Said())
		}
	})
}

// end stops the running controller.
func (v *kubeVPC) end() {
	v.t.Helper()
	if v.running == nil {
		return
	}
	if state := v.running.End(syscall.SIGTERM); !state.Success() {
		v.t.Errorf("tulle-controller ended with %v:\n%s", state, v.running.Said())
	}
	v.running = nil
}

// initialised waits until a host's Node has the facts of its instance, and a network.
func (v *kubeVPC) initialised(h *clustertest.Host) {
	v.t.Helper()
	v.eventually(func() error {
		var n corev1.Node
		if err := v.k.api.Try(http.MethodGet, nodesPath+"/"+h.Name, nil, &n); err != nil {
			return err
		}
		for _, taint := range n.Spec.Taints {
			if strings.HasPrefix(taint.Key, "node.cloudprovider.kubernetes.io/") {
				return fmt.Errorf("%s has the taint %s", h.Name, taint.Key)
			}
		}
		if i := v.instance(h); n.Labels[corev1.LabelTopologyZone] != i.Zone || n.Labels[corev1.LabelInstanceTypeStable] != i.Type {
			return fmt.Errorf("%s has the labels %v", h.Name, n.Labels)
		}
		return nil
	})
	v.k.available(h, true)
}

// TestKubeCloud runs a whole cluster on AWS, whose daemons have the backend cloud.
// tulle-controller initialises the Nodes, gives them podCIDRs, and writes their routes.
// A table that is full for IPv6 sends the IPv6 packets to one Node through the tunnel,
// until there is room again. Pings run all the time, and none is lost. The test takes
// half a minute: it builds tulle-controller, starts a control plane, and starts the
// controller three times.
func TestKubeCloud(t *testing.T) {
	t.Parallel()
	v := newKubeVPC(t)
	one, three := v.hosts[0], v.hosts[2]
	for _, h := range v.hosts {
		v.register(h)
	}
	v.control()
	for _, h := range v.hosts {
		v.k.given(h)
		v.k.start(h)
		h.AddPod()
		v.assign(h, 0)
	}
	v.Matrix()
	for _, h := range v.hosts {
		v.initialised(h)
	}
	v.awaitAllPaths("2=tunnel 3=tunnel", "1=tunnel 3=tunnel", "1=tunnel 2=tunnel")
	pings := v.k.everyPair()
	pings.more(5)

	v.aws.Tag(v.net.Main, ours())
	v.carryOut(v.net.Main)
	v.control()
	v.awaitAllPaths("2=direct 3=direct", "1=direct 3=direct", "1=direct 2=direct")
	before := v.tunnelled(one)
	pings.more(20)
	if now := v.tunnelled(one); now != before {
		t.Errorf("packets took the tunnel: %+v, and before %+v", now, before)
	}

	// The third host moves to a subnet whose table has room for two hosts in IPv6.
	full := v.aws.AddTable(v.net.VPC, ours(), v.net.Subnets[1])
	for _, other := range []string{"fd00:6:1::/64", "fd00:6:2::/64", "fd00:6:3::/64"} {
		v.aws.SetRoute(full, other, v.instance(one).ID)
	}
	v.carryOut(v.net.Main, full)
	v.control()
	v.awaitAllPaths("2=direct 3=tunnel and direct", "1=direct 3=tunnel and direct", "1=direct 2=direct")
	v.assign(three, 1)
	before = v.tunnelled(one)
	pings.more(20)
	now := v.tunnelled(one)
	if now[subnet.IPv4] != before[subnet.IPv4] || now[subnet.IPv6].sent == before[subnet.IPv6].sent {
		t.Errorf("only packets of IPv6 should take the tunnel: %+v, and before %+v", now, before)
	}

	v.aws.Set(func(s *awstest.Settings) { s.RoutesPerTable = 500 })
	v.control()
	v.awaitAllPaths("2=direct 3=direct", "1=direct 3=direct", "1=direct 2=direct")
	// The daemons and the routes need neither a controller nor the API server.
	v.end()
	v.k.api.Kill()
	pings.more(20)
	pings.wantLost(0)
}
