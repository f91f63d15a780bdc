//go:build kube

package controllertest

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
)

// These tests log what kube-controller-manager does, but check only tulle-controller,
// because a later kube-controller-manager may not have the fault.

// blocksHeld returns the number of used blocks that kube-controller-manager reports for a range.
func (l *lab) blocksHeld(manager string, cidr string) (held string, err error) {
	text, err := fetch(manager + "/metrics")
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "node_ipam_controller_cidrset_") && label(line, "clusterCIDR") == cidr && !strings.Contains(line, "_bucket{") {
			held += line
		}
	}
	return held, err
}

// insecure trusts every certificate, because kube-controller-manager's is self-signed.
var insecure = &tls.Config{InsecureSkipVerify: true}

// fetch returns the page at a URL.
func fetch(url string) (text string, err error) {
	transport := &http.Transport{TLSClientConfig: insecure}
	defer transport.CloseIdleConnections()
	a, err := (&http.Client{Transport: transport}).Get(url)
	if err != nil {
		return "", err
	}
	defer a.Body.Close()
	body, err := io.ReadAll(a.Body)
	if err == nil && a.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", a.Status, body)
	}
	return string(body), err
}

// decided waits until a Node has podCIDRs, or an event that explains why it has none.
func (l *lab) decided(name string) {
	l.t.Helper()
	kerneltest.Eventually(l.t, patience, func() error {
		if len(l.view.all()[name].cidrs) == 0 && len(l.events(name, "CIDRNotAvailable")) == 0 {
			return fmt.Errorf("%s has no podCIDRs and no event", name)
		}
		return nil
	})
}

// waitsFor waits until a program has written a text.
func (l *lab) waitsFor(p *kerneltest.Process, text string) {
	l.t.Helper()
	kerneltest.Eventually(l.t, patience, func() error {
		if said := p.Said(); !strings.Contains(said, text) {
			return fmt.Errorf("%q is not in\n%s", text, said)
		}
		return nil
	})
}

// TestExhaustedFamilyTakesNothingOfTheOther exhausts the IPv6 range. With
// kube-controller-manager, each retry then takes another IPv4 block, for ever.
func TestExhaustedFamilyTakesNothingOfTheOther(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	flags := []string{"--cluster-cidr=10.5.0.0/22,fd00:5::/63", "--node-cidr-mask-size-ipv4=24", "--node-cidr-mask-size-ipv6=64"}
	host := strings.TrimSuffix(strings.TrimPrefix(l.URL, "https://"), ":6443")
	manager := l.kcm(append(flags, "--secure-port=10257", "--bind-address="+host, "--cert-dir="+t.TempDir(),
		"--authorization-always-allow-paths=/metrics", "--authentication-skip-lookup")...)
	l.add("a", "b")
	l.served(patience)
	l.add("c")
	l.decided("c")
	held, err := l.blocksHeld("https://"+host+":10257", "10.5.0.0/22")
	t.Logf("kube-controller-manager, 2 Nodes with podCIDRs and 1 that waits, of 4 and 2 blocks: %v\n%s", err, held)
	t.Logf("its event is %q", l.events("c", "CIDRNotAvailable"))
	manager.End(syscall.SIGTERM)

	l.remove("c")
	controller := l.tulle(append(flags, "--leader-elect=false", "--healthz-ip="+host, "--healthz-port=10264")...)
	l.add("d")
	t.Logf("the event of tulle-controller is %q", l.says("d", "CIDRNotAvailable", "IPv6", "2 of 2 used, 0 free", "/64", "--cluster-cidr"))
	l.add("e")
	l.says("e", "CIDRNotAvailable")
	const two = `tulle_controller_blocks{family="IPv4",pool="cluster-cidr",state="used"} 2`
	if text, err := fetch("http://" + host + ":10264/metrics"); err != nil || !strings.Contains(text, two) {
		t.Errorf("%q is not in the metrics: %v\n%s", two, err, text)
	}
	stop(t, controller)
}

// TestMaskChangeKeepsLivingBlocks deletes one of two Nodes whose /27 blocks are in the
// same /24. kube-controller-manager then gives the /24 to another Node, although the
// living Node has a part of it.
func TestMaskChangeKeepsLivingBlocks(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	flags := []string{"--cluster-cidr=10.5.0.0/23", "--node-cidr-mask-size=24"}
	given := func() {
		l.Register(nil, smallNode("a", "10.5.0.0/27"), smallNode("b", "10.5.0.32/27"), smallNode("c", "10.5.1.0/24"))
	}
	given()
	manager := l.kcm(flags...)
	l.waitsFor(manager, "Starting range CIDR allocator")
	l.remove("a")
	l.add("d")
	l.decided("d")
	t.Logf("kube-controller-manager: %v, %q", l.view.all()["d"].cidrs, l.view.forgive())
	manager.End(syscall.SIGTERM)
	l.remove("b", "c", "d")

	given()
	controller := l.tulle(append(flags, "--leader-elect=false")...)
	l.remove("a")
	l.add("e")
	t.Logf("the event of tulle-controller is %q", l.says("e", "CIDRNotAvailable", "2 of 2 used"))
	if n := l.view.all()["e"]; len(n.cidrs) > 0 {
		t.Errorf("e has %v", n.cidrs)
	}
	l.remove("c")
	l.served(rest, "e")
	stop(t, controller)
}

// TestForeignBlockEndsNothing starts with a Node whose podCIDR is outside
// --cluster-cidr. Such a Node makes kube-controller-manager exit, with all its
// controllers.
func TestForeignBlockEndsNothing(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	flags := []string{"--cluster-cidr=10.5.0.0/22", "--node-cidr-mask-size=24"}
	l.Register(nil, smallNode("foreign", "192.0.2.0/24"), smallNode("wide", "10.5.0.0/23"))
	l.add("a")
	manager := l.kcm(flags...)
	kerneltest.Eventually(t, patience, func() error {
		if !manager.Over() && len(l.view.all()["a"].cidrs) == 0 {
			return fmt.Errorf("it runs, and a has no podCIDRs")
		}
		return nil
	})
	said := strings.Split(strings.TrimSpace(manager.Said()), "\n")
	t.Logf("kube-controller-manager has ended: %v; a has %v; %s", manager.Over(), l.view.all()["a"].cidrs, said[len(said)-1])
	manager.End(syscall.SIGTERM)

	controller := l.tulle(append(flags, "--leader-elect=false")...)
	l.add("b")
	l.served(patience)
	t.Logf("the event of tulle-controller is %q", l.says("foreign", "", "192.0.2.0/24", "outside"))
	l.remove("foreign")
	l.add("c")
	text := l.says("c", "CIDRNotAvailable", "4 of 4 used")
	t.Logf("the event of tulle-controller is %q", text)
	stop(t, controller)
}

// TestDeletingNodeKeepsItsBlock deletes a Node that a finalizer keeps. Its block goes
// to another Node only after the Node is gone and the block has rested.
func TestDeletingNodeKeepsItsBlock(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	controller := l.tulle("--cluster-cidr=10.5.0.0/23", "--leader-elect=false")
	kept := smallNode("a")
	kept.Finalizers = []string{"example.org/kept"}
	l.Register(nil, kept, smallNode("b"))
	l.served(patience)
	before := l.view.all()["a"].cidrs
	l.remove("a")
	l.add("c")
	t.Logf("the event of tulle-controller is %q", l.says("c", "CIDRNotAvailable", "2 of 2 used, 0 free"))
	if n := l.view.all()["c"]; len(n.cidrs) > 0 {
		t.Errorf("c has %v", n.cidrs)
	}
	l.Do(http.MethodPatch, nodesPath+"/a", map[string]any{"metadata": map[string]any{"finalizers": nil}}, nil)
	l.served(rest, "c")
	if now := l.view.all()["c"].cidrs; fmt.Sprint(now) != fmt.Sprint(before) {
		t.Errorf("c has %v, and %v was free", now, before)
	}
	stop(t, controller)
}

// TestGivesEveryBlock creates Nodes until the last block of a range is used, and
// beyond.
func TestGivesEveryBlock(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	controller := l.tulle("--cluster-cidr=10.5.0.0/20", "--node-cidr-mask-size=28", "--service-cluster-ip-range=10.5.15.0/24", "--leader-elect=false")
	const blocks = 256 - 16
	l.Register(nil, largeNodes(0, blocks)...)
	l.served(patience)
	l.add("late")
	text := l.says("late", "CIDRNotAvailable", "240 of 256 used, 0 free, 0 resting, 16 reserved", "--cluster-cidr", "delete Nodes")
	t.Logf("the event of tulle-controller is %q", text)
	l.add("later")
	gone := largeNode(7).Name
	free := l.view.all()[gone].cidrs
	l.remove(gone)
	// The Node that has waited longest gets the block.
	l.served(rest, "late")
	all := l.view.all()
	if fmt.Sprint(all["late"].cidrs) != fmt.Sprint(free) || len(all["later"].cidrs) > 0 {
		t.Errorf("late has %v, later %v; %v was free", all["late"].cidrs, all["later"].cidrs, free)
	}
	stop(t, controller)
}

// TestTwoAllocatorsNeedAnElection runs two replicas of each program. Without an
// election, two kube-controller-managers give the same block to two Nodes.
// tulle-controller elects a leader unless a flag disables that.
func TestTwoAllocatorsNeedAnElection(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	flags := []string{"--cluster-cidr=10.5.0.0/20", "--node-cidr-mask-size=28"}
	managers := []*kerneltest.Process{l.kcm(flags...), l.kcm(flags...)}
	for _, p := range managers {
		l.waitsFor(p, "Starting range CIDR allocator")
	}
	var nodes []string
	for i := range 40 {
		nodes = append(nodes, fmt.Sprintf("node-%d", i))
	}
	l.addAtOnce(nodes...)
	l.served(patience)
	twice := l.view.forgive()
	t.Logf("two kube-controller-managers assigned %d blocks twice: %.300q", len(twice), twice)
	for _, p := range managers {
		p.End(syscall.SIGTERM)
	}
	l.remove(nodes...)

	controllers := []*kerneltest.Process{l.tulle(flags...), l.tulle(flags...)}
	for i := range nodes {
		nodes[i] += "-later"
	}
	l.addAtOnce(nodes...)
	l.served(patience)
	for _, p := range controllers {
		stop(t, p)
	}
}
