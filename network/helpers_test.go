package network

import (
	"context"
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/tulle-net/tulle/backend"
	"github.com/tulle-net/tulle/backend/move"
	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/subnet"
)

// ours returns our objects in the node's kernel, one per line.
func (n *node) ours() string {
	n.t.Helper()
	scope := netstate.Scope{}
	for _, o := range n.backend.Host(n.own) {
		switch o := o.(type) {
		case netstate.Link:
			scope.Links = append(scope.Links, o.Name)
		case netstate.Sysctl:
			scope.Sysctls = append(scope.Sysctls, o.Path)
		}
	}
	objects, err := n.kernel.Dump(context.Background(), scope)
	if err != nil {
		n.t.Fatal(err)
	}
	return netstate.Of(objects...).String()
}

// flannelMAC is the MAC of the device that becomeFlannel creates.
var flannelMAC = subnet.Pair[string]{"3a:66:6c:61:6e:01", "3a:66:6c:61:6e:06"}

// becomeFlannel creates the objects that flannel would have on the host to reach peer,
// and a stale route.
func (n *node) becomeFlannel(peer *node) {
	n.t.Helper()
	n.prepare()
	n.own.BackendType, n.own.Created = "vxlan", int64(n.number)
	for f, pool := range n.cfg.Pools {
		if pool.IsValid() {
			n.flannelDevice(subnet.Family(f), peer)
		}
	}
	n.ns.IP(n.t, "route add 10.5.88.0/24 via 10.5.88.0 dev flannel.1 onlink")
	n.ns.IP(n.t, "neigh add 10.5.88.0 lladdr 3a:00:00:00:00:88 dev flannel.1 nud permanent")
	n.ns.Sysctl(n.t, "net/ipv4/conf/all/forwarding", "1")
}

func (n *node) flannelDevice(f subnet.Family, peer *node) {
	n.t.Helper()
	device := subnet.Pair[string]{"flannel.1", "flannel-v6.1"}[f]
	address := func(i int) string {
		return fmt.Sprintf(subnet.Pair[string]{"198.18.0.%d", "fd00:18::%d"}[f], i)
	}
	_, mac, _ := strings.Cut(peer.own.BackendData[f], `"VtepMAC":"`)
	mac, _, _ = strings.Cut(mac, `"`)
	other := peer.own.Subnets[f]
	n.ns.IP(n.t, fmt.Sprintf("link add %s address %s mtu %d type vxlan id 1 dstport 8472 local %s dev eth0 nolearning", device, flannelMAC[f], 1450, address(n.number)))
	n.ns.IP(n.t, "link set "+device+" up")
	n.ns.IP(n.t, fmt.Sprintf("addr add %s/%d dev %s nodad", n.own.Subnets[f].Addr(), f.Bits(), device))
	n.ns.IP(n.t, fmt.Sprintf("neigh add %s lladdr %s dev %s nud permanent", other.Addr(), mac, device))
	n.ns.Bridge(n.t, fmt.Sprintf("fdb add %s dev %s dst %s", mac, device, address(peer.number)))
	n.ns.IP(n.t, fmt.Sprintf("route add %s via %s dev %s onlink", other, other.Addr(), device))
	n.own.BackendData[f] = fmt.Sprintf(`{"VNI":1,"VtepMAC":"%s"}`, flannelMAC[f])
	n.own.PublicIP[f] = netip.MustParseAddr(address(n.number))
}

// flood sends about 500 pings a second to address. The returned function waits for
// the end, and returns the numbers of sent and unanswered pings.
func flood(t testing.TB, from *kerneltest.NS, source, address string) func() (sent, lost int) {
	t.Helper()
	cmd := from.Command("ping", "-n", "-q", "-c", "500", "-i", "0.002", "-I", source, address)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return func() (sent, lost int) {
		t.Helper()
		_ = cmd.Wait() // it fails if no ping is answered, which the counts show
		m := regexp.MustCompile(`(\d+) packets transmitted, (\d+) received`).FindStringSubmatch(out.String())
		if m == nil {
			t.Fatalf("ping said %q", &out)
		}
		sent, _ = strconv.Atoi(m[1])
		received, _ := strconv.Atoi(m[2])
		return sent, sent - received
	}
}

// only returns a backend as the only one that a node holds.
func only(b backend.Backend) move.Backends {
	return move.New(0, "", move.Held{Type: b.Publish().BackendType, Backend: b})
}
