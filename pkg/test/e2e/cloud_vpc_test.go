//go:build cloud || kube

package e2e

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tulle-net/tulle/pkg/cloud/aws/awstest"
	"github.com/tulle-net/tulle/pkg/test/clustertest"
	"github.com/tulle-net/tulle/subnet"
)

const (
	cloudCluster = "lab"
	// cloudQuota is how many routes of a family a table may have, beside that of the
	// network itself.
	cloudQuota = 5
	firstInVPC = 11 // AWS keeps the first addresses of a subnet
)

// vpc is hosts in a VPC of AWS. Their router carries out the route tables of the account:
// it forwards what a table has a route for, and drops the rest.
type vpc struct {
	*world
	aws      *awstest.Server
	net      awstest.Network
	hosts    []*clustertest.Host // without the router
	router   *clustertest.Host
	families []subnet.Family // of the pods
	byIP     map[netip.Addr]*clustertest.Host

	mu     sync.Mutex
	tables []string // that the router carries out
	begun  bool
	failed error
}

// newVPC adds hosts, their router and their account to a world without hosts. Pods have
// addresses of all families.
func newVPC(w *world, hosts int, families ...subnet.Family) *vpc {
	t := w.t
	t.Helper()
	v := &vpc{world: w, families: families, byIP: make(map[netip.Addr]*clustertest.Host)}
	// The account is where the controller is, beside the store.
	if err := clustertest.Inside(v.EtcdHost().NS.Path, func() (err error) {
		v.aws, err = awstest.Start("127.0.0.1:0")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.aws.Close)
	v.aws.Set(func(s *awstest.Settings) { s.RoutesPerTable = cloudQuota + 1 })
	v.net = v.aws.AddNetwork("198.18.0.0/16", 18, slices.Contains(families, subnet.IPv6))
	v.router = v.AddHost(200)
	for _, name := range []string{"all", clustertest.Uplink} {
		v.router.NS.Sysctl(t, "net/ipv4/conf/"+name+"/forwarding", "1")
		v.router.NS.Sysctl(t, "net/ipv4/conf/"+name+"/send_redirects", "0")
		v.router.NS.Sysctl(t, "net/ipv4/conf/"+name+"/rp_filter", "0")
		v.router.NS.Sysctl(t, "net/ipv6/conf/"+name+"/forwarding", "1")
	}
	v.router.NS.IP(t, "route add unreachable 10.5.0.0/16")
	v.router.NS.IP(t, "-6 route add unreachable fd00:5::/48")
	for n := range hosts {
		v.join(v.AddHost(firstInVPC + n))
	}
	v.Hosts = v.hosts
	return v
}

// join makes a host an instance of the VPC, whose packets to other networks go to the router.
func (v *vpc) join(h *clustertest.Host) {
	v.t.Helper()
	// Strict hosts filter by the reverse path.
	h.NS.Sysctl(v.t, "net/ipv4/conf/eth0/rp_filter", "1")
	// A Linux router sends redirects to the next host on the link. A cloud's router
	// does not.
	h.NS.Sysctl(v.t, "net/ipv6/conf/eth0/accept_redirects", "0")
	h.NS.IP(v.t, "route replace default via "+v.router.Addr[subnet.IPv4].String())
	h.NS.IP(v.t, "-6 route replace default via "+v.linkLocal()+" dev "+clustertest.Uplink)
	launch := awstest.Launch{Subnet: v.net.Subnets[0], Private: h.Addr[subnet.IPv4].String(), Tags: ours()}
	if slices.Contains(v.families, subnet.IPv6) {
		launch.V6 = 1
	}
	v.aws.Launch(launch)
	v.hosts = append(v.hosts, h)
	v.byIP[h.Addr[subnet.IPv4]] = h
}

// linkLocal returns the router's address that IPv6 hosts of a cloud send to.
func (v *vpc) linkLocal() string {
	v.t.Helper()
	f := strings.Fields(v.router.NS.IP(v.t, "-6 -o addr show dev "+clustertest.Uplink+" scope link"))
	if len(f) < 4 {
		v.t.Fatalf("the router has no link-local address: %q", f)
	}
	address, _, _ := strings.Cut(f[3], "/")
	return address
}

// instance returns a host's instance.
func (v *vpc) instance(h *clustertest.Host) awstest.Instance {
	v.t.Helper()
	for _, i := range v.aws.Instances() {
		if i.Private == h.Addr[subnet.IPv4] {
			return i
		}
	}
	v.t.Fatalf("%s has no instance", h.Name)
	return awstest.Instance{}
}

// ours are the tags of what belongs to the cluster.
func ours() map[string]string {
	return map[string]string{"kubernetes.io/cluster/" + cloudCluster: "owned"}
}

// assign makes the router route packets from a host and from its subnets by one of its
// tables.
func (v *vpc) assign(h *clustertest.Host, table int) {
	v.t.Helper()
	subnets, err := subnetsOf(h)
	if err != nil {
		v.t.Fatal(err)
	}
	for _, f := range v.families {
		for _, from := range []string{subnets[f].String(), h.Addr[f].String()} {
			// The new rule comes before the old one, so that one of them is always in
			// force.
			if err := v.program(f, fmt.Sprintf("rule add from %s lookup %d priority %d", from, 100+table, 1000-table)); err != nil {
				v.t.Fatal(err)
			}
		}
	}
}

// carryOut starts to copy the account's route tables to the router, and sets which
// tables it copies.
func (v *vpc) carryOut(tables ...string) {
	v.mu.Lock()
	v.tables = tables
	first := !v.begun
	v.begun = true
	v.mu.Unlock()
	if !first {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		has := make(map[hop]netip.Addr)
		for ctx.Err() == nil {
			want := v.wanted()
			for at := range has {
				if !want[at].IsValid() {
					v.note(v.program(at.family(), fmt.Sprintf("route del %s table %d", at.to, at.table)))
				}
			}
			for at, via := range want {
				if has[at] != via {
					v.note(v.program(at.family(), fmt.Sprintf("route replace %s via %s dev %s table %d", at.to, via, clustertest.Uplink, at.table)))
				}
			}
			has = want
			_ = v.aws.Wait(ctx, func() bool { return !maps.Equal(v.wanted(), has) })
		}
	}()
	v.t.Cleanup(func() { cancel(); <-ended })
}

// hop is a destination in a table of the router.
type hop struct {
	to    netip.Prefix
	table int
}

func (h hop) family() subnet.Family { return subnet.FamilyOf(h.to.Addr()) }

// wanted returns the gateway of each route that the router should have.
func (v *vpc) wanted() map[hop]netip.Addr {
	v.mu.Lock()
	tables := slices.Clone(v.tables)
	v.mu.Unlock()
	at := make(map[string]*clustertest.Host)
	for _, i := range v.aws.Instances() {
		if i.Forwards {
			at[i.Interface] = v.byIP[i.Private]
		}
	}
	all := make(map[hop]netip.Addr)
	for n, id := range tables {
		for _, r := range v.aws.Routes(id) {
			if h := at[r.Target]; h != nil {
				to := netip.MustParsePrefix(r.Destination)
				all[hop{to, 100 + n}] = h.Addr[subnet.FamilyOf(to.Addr())]
			}
		}
	}
	return all
}

// note records the router's last error for failure messages.
func (v *vpc) note(err error) {
	if err != nil {
		v.mu.Lock()
		v.failed = err
		v.mu.Unlock()
	}
}

// program runs an ip command on the router.
func (v *vpc) program(f subnet.Family, line string) error {
	args := []string{"-n", v.router.NS.Name}
	if f == subnet.IPv6 {
		args = append(args, "-6")
	}
	out, err := exec.Command("ip", append(args, strings.Fields(line)...)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ip %s: %w: %s", line, err, out)
	}
	return nil
}

// awaitPaths waits until a host reaches each other host by these paths, such as
// "2=direct 3=tunnel".
func (v *vpc) awaitPaths(h *clustertest.Host, want string) {
	v.t.Helper()
	v.eventually(func() error {
		peers, err := v.peersOf(h)
		if err != nil {
			return err
		}
		var got []string
		for _, host := range v.hosts {
			for _, p := range peers {
				if p.InSync && slices.Contains(p.Addresses, host.Addr[v.families[0]]) {
					got = append(got, fmt.Sprintf("%d=%s", host.Number-firstInVPC+1, p.By))
				}
			}
		}
		if strings.Join(got, " ") != want {
			v.mu.Lock()
			defer v.mu.Unlock()
			return fmt.Errorf("%s reaches its peers by %q, want %q; the router's last error: %v\n%+v", h.Name, got, want, v.failed, peers)
		}
		return nil
	})
}

// awaitAllPaths waits until each host reaches the others by these paths.
func (v *vpc) awaitAllPaths(ways ...string) {
	v.t.Helper()
	for i, want := range ways {
		v.awaitPaths(v.hosts[i], want)
	}
}

// traffic is how many packets have gone through a tunnel.
type traffic struct{ sent, received int }

// tunnelled returns the traffic through a host's tunnel of each family.
func (v *vpc) tunnelled(h *clustertest.Host) (all subnet.Pair[traffic]) {
	v.t.Helper()
	out, err := h.NS.Command("cat", "/proc/net/dev").CombinedOutput()
	if err != nil {
		v.t.Fatal(err)
	}
	found := 0
	for line := range strings.Lines(string(out)) {
		name, numbers, _ := strings.Cut(strings.TrimSpace(line), ":")
		for _, f := range v.families {
			if name != tunnels[f] {
				continue
			}
			words := strings.Fields(numbers)
			if _, err := fmt.Sscan(words[1]+" "+words[9], &all[f].received, &all[f].sent); err != nil {
				v.t.Fatal(err)
			}
			found++
		}
	}
	if found != len(v.families) {
		v.t.Fatalf("%s lacks a tunnel:\n%s", h.Name, out)
	}
	return all
}

var tunnels = subnet.Pair[string]{"tulle.1", "tulle6.1"}

// buildController builds tulle-controller while the hosts start. The returned function
// waits for the program.
func buildController(t *testing.T) (program func() string) {
	path := filepath.Join(t.TempDir(), "tulle-controller")
	built := make(chan error, 1)
	go func() {
		out, err := exec.Command("go", "build", "-o", path, module+"/pkg/cmd/tulle-controller").CombinedOutput()
		if err != nil {
			err = fmt.Errorf("build tulle-controller: %w: %s", err, out)
		}
		built <- err
	}()
	return sync.OnceValue(func() string {
		t.Helper()
		if err := <-built; err != nil {
			t.Fatal(err)
		}
		return path
	})
}
