//go:build cloud

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
	cloudConfig  = `{"Network": "10.5.0.0/16", "Backend": {"Type": "cloud"}}`
	// cloudQuota is how many routes a table may have, beside that of the network itself.
	cloudQuota = 5
	firstInVPC = 11 // AWS keeps the first addresses of a subnet
)

// vpc is three hosts in a VPC of AWS. Their router carries out the route tables of the
// account: it forwards what a table has a route for, and drops the rest.
type vpc struct {
	*world
	aws     *awstest.Server
	net     awstest.Network
	hosts   []*clustertest.Host // without the router
	router  *clustertest.Host
	program string // tulle-controller
	stopped func() // ends the controller

	mu     sync.Mutex
	tables []string       // that the router carries out
	of     map[string]int // the table of each source
	failed error
}

// newVPC returns hosts whose daemons and pods run. All of them use one table.
func newVPC(t *testing.T) *vpc {
	t.Helper()
	v := &vpc{program: filepath.Join(t.TempDir(), "tulle-controller"), of: make(map[string]int)}
	built := make(chan error, 1) // while the hosts start
	go func() {
		out, err := exec.Command("go", "build", "-o", v.program, module+"/pkg/cmd/tulle-controller").CombinedOutput()
		if err != nil {
			err = fmt.Errorf("build tulle-controller: %w: %s", err, out)
		}
		built <- err
	}()
	v.world = newWorld(t, 0, 1, cloudConfig)
	// The account is where the controller is, beside etcd.
	if err := clustertest.Inside(v.EtcdHost().NS.Path, func() (err error) {
		v.aws, err = awstest.Start("127.0.0.1:0")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.aws.Close)
	v.router = v.AddHost(200)
	for n := range 3 {
		v.hosts = append(v.hosts, v.AddHost(firstInVPC+n))
	}
	v.Hosts = v.hosts
	for _, path := range []string{"all/forwarding", "eth0/forwarding"} {
		v.router.NS.Sysctl(t, "net/ipv4/conf/"+path, "1")
	}
	for _, path := range []string{"all/send_redirects", "eth0/send_redirects", "all/rp_filter", "eth0/rp_filter"} {
		v.router.NS.Sysctl(t, "net/ipv4/conf/"+path, "0")
	}
	v.router.NS.IP(t, "route add unreachable 10.5.0.0/16")
	v.aws.Set(func(s *awstest.Settings) { s.RoutesPerTable = cloudQuota + 1 })
	v.net = v.aws.AddNetwork("198.18.0.0/16", 18, false)
	for _, h := range v.hosts {
		// As a strict host that filters by the way back.
		h.NS.Sysctl(t, "net/ipv4/conf/eth0/rp_filter", "1")
		h.NS.IP(t, "route replace default via "+v.router.Addr[subnet.IPv4].String())
		v.aws.Launch(awstest.Launch{Subnet: v.net.Subnets[0], Private: h.Addr[subnet.IPv4].String(), Tags: ours()})
		v.start(h).WaitLog("Kernel in sync with all peers")
		h.AddPod()
	}
	for _, h := range v.hosts {
		v.assign(h, 0)
	}
	v.Matrix()
	if err := <-built; err != nil {
		t.Fatal(err)
	}
	return v
}

// ours are the tags of what belongs to the cluster.
func ours() map[string]string {
	return map[string]string{"kubernetes.io/cluster/" + cloudCluster: "owned"}
}

// assign lets the packets of a host's subnet and of itself meet a table of the router.
func (v *vpc) assign(h *clustertest.Host, table int) {
	v.t.Helper()
	subnets, err := subnetsOf(h)
	if err != nil {
		v.t.Fatal(err)
	}
	for _, from := range []string{subnets[subnet.IPv4].String(), h.Addr[subnet.IPv4].String()} {
		// The new rule comes before the old one, so that one of them always counts.
		if err := tryRouter(v, fmt.Sprintf("rule add from %s lookup %d priority %d", from, 100+table, 1000-table)); err != nil {
			v.t.Fatal(err)
		}
	}
}

// carryOut programs the router by tables of the account, from now on.
func (v *vpc) carryOut(tables ...string) {
	v.mu.Lock()
	v.tables = tables
	first := v.of["begun"] == 0
	v.of["begun"] = 1
	v.mu.Unlock()
	if !first {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		has := make(map[string]string)
		for ctx.Err() == nil {
			want := v.wanted()
			var lines []string
			for at := range has {
				if want[at] == "" {
					lines = append(lines, "route del "+at)
				}
			}
			for at, via := range want {
				if has[at] != via {
					lines = append(lines, fmt.Sprintf("route replace %s via %s", at, via))
				}
			}
			for _, line := range lines {
				if err := tryRouter(v, line); err != nil {
					v.mu.Lock()
					v.failed = err
					v.mu.Unlock()
				}
			}
			has = want
			_ = v.aws.Wait(ctx, func() bool { return !maps.Equal(v.wanted(), has) })
		}
	}()
	v.t.Cleanup(func() { cancel(); <-ended })
}

// wanted returns the routes that the router is to have: "DESTINATION table N" by gateway.
func (v *vpc) wanted() map[string]string {
	v.mu.Lock()
	tables := slices.Clone(v.tables)
	v.mu.Unlock()
	at := make(map[string]netip.Addr)
	for _, i := range v.aws.Instances() {
		if i.Forwards {
			at[i.Interface] = i.Private
		}
	}
	all := make(map[string]string)
	for n, id := range tables {
		for _, r := range v.aws.Routes(id) {
			if via, ok := at[r.Target]; ok {
				all[fmt.Sprintf("%s table %d", r.Destination, 100+n)] = via.String()
			}
		}
	}
	return all
}

func tryRouter(v *vpc, line string) error {
	out, err := exec.Command("ip", append([]string{"-n", v.router.NS.Name}, strings.Fields(line)...)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ip %s: %w: %s", line, err, out)
	}
	return nil
}

// control runs tulle-controller, in the place of the one that runs.
func (v *vpc) control() {
	v.t.Helper()
	if v.stopped != nil {
		v.stopped()
	}
	cmd := exec.Command(v.program, "--etcd-endpoints="+strings.Join(v.etcd.Endpoints(), ","), "--cloud-provider=aws", "--cluster-name="+cloudCluster, "--healthz-port=0")
	d := v.EtcdHost().Start(clustertest.Command{Argv: cmd.Args, Env: v.aws.Env()})
	v.stopped = func() { d.Stop() }
}

// awaitWays waits until a host sends to each other host by these ways, like "2=direct 3=tunnel".
func (v *vpc) awaitWays(h *clustertest.Host, want string) {
	v.t.Helper()
	v.eventually(func() error {
		out, _ := v.command(h, "peers")
		var got []string
		for _, peer := range v.hosts {
			for line := range strings.Lines(out) {
				for _, way := range []string{"direct", "tunnel"} {
					if strings.Contains(line, " "+peer.Addr[subnet.IPv4].String()+" ") && strings.Contains(line, " "+way+" ") && strings.Contains(line, "in sync") {
						got = append(got, fmt.Sprintf("%d=%s", peer.Number-firstInVPC+1, way))
					}
				}
			}
		}
		if strings.Join(got, " ") != want {
			v.mu.Lock()
			defer v.mu.Unlock()
			return fmt.Errorf("%s sends %q, want %q; the router: %v\n%s", h.Name, got, want, v.failed, out)
		}
		return nil
	})
}

// tunnelled returns how many packets a host has sent and received through its tunnel.
func (v *vpc) tunnelled(h *clustertest.Host) (sent, received int) {
	v.t.Helper()
	out, err := h.NS.Command("cat", "/proc/net/dev").CombinedOutput()
	if err != nil {
		v.t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		if name, numbers, ok := strings.Cut(strings.TrimSpace(line), ":"); ok && name == "tulle.1" {
			f := strings.Fields(numbers)
			if _, err := fmt.Sscan(f[1]+" "+f[9], &received, &sent); err != nil {
				v.t.Fatal(err)
			}
			return sent, received
		}
	}
	v.t.Fatalf("%s has no tunnel:\n%s", h.Name, out)
	return 0, 0
}
