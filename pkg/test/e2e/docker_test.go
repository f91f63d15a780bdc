package e2e

import (
	"fmt"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"github.com/tulle-net/tulle/pkg/test/clustertest"
	"github.com/tulle-net/tulle/pkg/test/dockertest"
	"github.com/tulle-net/tulle/subnet"
)

// TestDockerContainersReachOneAnother runs real dockerds on two hosts, with the options
// from the env files. Containers reach one another under their own addresses, and hosts
// outside under their host's address. Docker drops forwarded packets that no rule
// accepts. A restart of Docker changes none of this.
func TestDockerContainersReachOneAnother(t *testing.T) {
	t.Parallel()
	control := dockertest.ControlGroup(t)
	w := newWorld(t, 3, 1, vxlan)
	outside := w.Hosts[2]
	mirror(t, outside.NS.Path, 7000)
	world := netip.AddrPortFrom(outside.Addr[subnet.IPv4], 7000)
	var dockers []*docker
	root := image(t)
	for _, h := range w.Hosts[:2] {
		w.start(h, "--ip-masq")
	}
	for _, h := range w.Hosts[:2] {
		d := w.startDocker(h, control)
		dockers = append(dockers, d)
		d.Run(root, "import", "-", "box")
		d.Run(nil, "run", "--detach", "--name=one", "--restart=always", "--stop-signal=KILL", "box", "/busybox", "sleep", "1000000")
	}
	reach := func() {
		t.Helper()
		var pods []*clustertest.Pod
		for _, d := range dockers {
			// Docker sets this policy itself if it turns forwarding on first, as at a
			// boot that starts Docker first.
			d.forward(t, "-P", "DROP")
			p := d.container("one")
			if mtu := d.Run(nil, "exec", "one", "/busybox", "cat", "/sys/class/net/eth0/mtu"); mtu != fmt.Sprint(p.MTU) {
				t.Errorf("a container on %s has an MTU of %s, not %d", d.host.Name, mtu, p.MTU)
			}
			mirror(t, p.NS.Path, 7001)
			pods = append(pods, p)
		}
		for i, d := range dockers {
			from, to := pods[i], pods[1-i]
			w.seen(from.NS.Path, world, d.host.Addr[subnet.IPv4])
			w.eventually(func() error {
				_, err := d.Try(nil, "exec", "one", "/busybox", "ping", "-c1", "-W1", to.Addr[subnet.IPv4].String())
				return err
			})
			w.Reach(from, to)
			w.seen(from.NS.Path, netip.AddrPortFrom(to.Addr[subnet.IPv4], 7001), from.Addr[subnet.IPv4])
		}
	}
	reach()
	for _, d := range dockers {
		d.End(syscall.SIGTERM)
		d.start()
	}
	reach()
	for _, d := range dockers {
		if rules := d.forward(t, "-S"); !strings.Contains(rules, "-j DOCKER") || !strings.Contains(rules, "-P FORWARD DROP") {
			t.Errorf("Docker drops no forwarded packets on %s, so this test proves nothing:\n%s", d.host.Name, rules)
		}
	}
}

// forward runs a command of iptables on the rules for forwarded packets.
func (d *docker) forward(t *testing.T, command string, args ...string) string {
	t.Helper()
	out, err := d.host.NS.Command(append([]string{"iptables", "-w", command, "FORWARD"}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("iptables %s FORWARD %s on %s: %v: %s", command, strings.Join(args, " "), d.host.Name, err, out)
	}
	return string(out)
}
