//go:build kube

package controllertest

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
)

// TestTakesOverWithoutAWrite switches a cluster from kube-controller-manager to
// tulle-controller with the same flags, and back. Nodes keep their podCIDRs, the first pass
// writes nothing, and new Nodes get free blocks.
func TestTakesOverWithoutAWrite(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	flags := []string{
		"--cluster-cidr=10.5.0.0/20,fd00:5::/60", "--node-cidr-mask-size-ipv4=24", "--node-cidr-mask-size-ipv6=64",
		"--service-cluster-ip-range=10.5.4.0/23,fd00:5:0:4::/112",
	}
	manager := l.kcm(flags...)
	l.add("a", "b", "c", "d")
	l.served(patience)
	manager.End(syscall.SIGTERM)
	before := l.view.all()

	plan := func(code int) {
		t.Helper()
		cmd := exec.Command(l.program, append([]string{"plan", "--kubeconfig=" + l.account, "--allocate-node-cidrs"}, flags...)...)
		if out, _ := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != code {
			t.Errorf("plan exits with %v, not %d:\n%s", cmd.ProcessState, code, out)
		}
	}
	a := l.audit()
	controller := l.tulleAs(a.kubeconfig, append(flags, "--leader-elect=false")...)
	plan(0)
	// The controller has listed the Nodes, and watches them.
	kerneltest.Eventually(t, patience, func() error {
		if n := len(a.requests("GET /api/v1/nodes")); n == 0 {
			return fmt.Errorf("the controller has not listed Nodes:\n%s", controller.Said())
		}
		return nil
	})
	l.add("e")
	l.served(patience)
	for _, r := range a.requests("PATCH ") {
		if r != "PATCH /api/v1/nodes/e" {
			t.Errorf("the first pass wrote: %s", r)
		}
	}
	l.add("f", "g")
	l.served(patience)
	for name, n := range l.view.all() {
		if old, is := before[name]; is && !slices.Equal(n.cidrs, old.cidrs) {
			t.Errorf("%s had %v, and has %v", name, old.cidrs, n.cidrs)
		}
		for _, p := range n.cidrs {
			if text := p.String(); text == "10.5.4.0/24" || text == "10.5.5.0/24" || text == "fd00:5:0:4::/64" {
				t.Errorf("%s has %s, which Services use", name, text)
			}
		}
	}
	stop(t, controller)

	before = l.view.all()
	l.kcm(flags...)
	l.add("h", "i")
	l.served(patience)
	now := l.view.all()
	for name, n := range before {
		if !slices.Equal(now[name].cidrs, n.cidrs) {
			t.Errorf("%s had %v, and after the switch back it has %v", name, n.cidrs, now[name].cidrs)
		}
	}
	if said := controller.Said(); strings.Contains(said, "forbidden") {
		t.Errorf("it lacks a permission:\n%s", said)
	}
}
