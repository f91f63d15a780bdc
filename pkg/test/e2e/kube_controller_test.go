//go:build kube

package e2e

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/test/kubetest"
)

// TestKubeController runs a whole cluster without kube-controller-manager:
// tulle-controller gives the Nodes their podCIDRs, and tulled builds the network. The
// network also works after the controller has died.
func TestKubeController(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "tulle-controller")
	if out, err := exec.Command("go", "build", "-race", "-o", program, module+"/pkg/cmd/tulle-controller").CombinedOutput(); err != nil {
		t.Fatalf("build tulle-controller: %v: %s", err, out)
	}
	k := newKubeWorld(t, 3, dualNetwork, false, func(o *kubetest.Options) { o.ClusterCIDRs = nil })
	for _, h := range k.Hosts[:2] {
		k.register(h) // before the controller is there
	}
	kubeconfig := k.api.ServiceAccount("kube-system", "tulle-controller", kubetest.ControllerRules...)
	run := func() *kerneltest.Process {
		t.Helper()
		p := kerneltest.Launch(t, k.EtcdHost().NS.Name, nil, program, "--kubeconfig="+kubeconfig,
			"--allocate-node-cidrs", "--cluster-cidr="+strings.Join(clusterCIDRs, ","))
		t.Cleanup(func() { p.End(syscall.SIGKILL) })
		return p
	}
	p := run()
	for _, h := range k.Hosts[:2] {
		k.given(h)
		k.start(h)
		h.AddPod()
	}
	late := k.Hosts[2]
	k.start(late) // before its Node is there
	k.register(late)
	k.given(late)
	late.AddPod()
	k.Matrix()
	keys := k.keys()
	pings := k.everyPair()
	p.End(syscall.SIGKILL)
	for _, h := range k.Hosts {
		k.available(h, true)
	}
	p = run()
	pings.more(50)
	pings.wantLost(0)
	k.sameKeys(keys)
	k.eventually(func() error { // before it runs, a signal ends it as any process
		if p.Said() == "" {
			return errors.New("the second tulle-controller has not begun")
		}
		return nil
	})
	if state := p.End(syscall.SIGTERM); !state.Success() {
		t.Errorf("tulle-controller ended with %v:\n%s", state, p.Said())
	}
}
