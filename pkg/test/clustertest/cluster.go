package clustertest

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/subnet"
)

// patience is the time limit of a wait before the test fails: 50 daemons with a race
// detector on two cores are slow.
const patience = 2 * time.Minute

// Options are the options of a new cluster.
type Options struct {
	// Hosts is the number of hosts. They are numbered from 1.
	Hosts int
	// StaticNeighbours makes permanent neighbour entries for all hosts, so that they
	// need not resolve MACs. It includes the hosts of earlier calls of AddHosts. The
	// kernel limits learned neighbours for all namespaces of the machine together
	// (net.ipv4.neigh.default.gc_thresh3, usually 1024): about 30 hosts that all talk
	// to one another exceed that.
	StaticNeighbours bool
}

// Cluster is hosts on one switch.
type Cluster struct {
	// Hosts are in the order in which they were added, without EtcdHost.
	Hosts []*Host

	t    testing.TB
	opts Options
	dir  string
	link *kerneltest.NS // namespace of the switch
	etcd *Host
	// inodes of all namespaces
	inodes map[uint64]bool
	end    func()

	mu      sync.Mutex
	daemons []*Daemon
	streams []*Stream
	wires   []*wire
}

// New returns a cluster, which is removed when its test ends.
func New(t testing.TB, opts Options) *Cluster {
	t.Helper()
	c := &Cluster{t: t, opts: opts, dir: t.TempDir(), inodes: make(map[uint64]bool)}
	c.end = sync.OnceFunc(c.finish)
	c.link = kerneltest.NewNS(t, "switch")
	t.Cleanup(c.end)
	// All ports receive all multicast packets, so that no test depends on which groups
	// a bridge has learned.
	batch(t, c.link, "link add br0 type bridge mcast_snooping 0", "link set br0 up")
	c.AddHosts(opts.Hosts)
	return c
}

// AddHosts adds n hosts, numbered from the highest number on.
func (c *Cluster) AddHosts(n int) []*Host {
	c.t.Helper()
	number := 0
	for _, h := range c.Hosts {
		number = max(number, h.Number)
	}
	first := len(c.Hosts)
	for i := range n {
		c.Hosts = append(c.Hosts, c.makeHost(fmt.Sprintf("host%d", number+1+i), number+1+i))
	}
	if c.opts.StaticNeighbours {
		c.introduce(c.Hosts[first:])
	}
	return c.Hosts[first:]
}

// AddHost adds the host with a number from 1 to MaxHost.
func (c *Cluster) AddHost(number int) *Host {
	c.t.Helper()
	if number < 1 || number > MaxHost {
		c.t.Fatalf("there is no host %d: hosts are numbered 1 to %d", number, MaxHost)
	}
	h := c.makeHost(fmt.Sprintf("host%d", number), number)
	c.Hosts = append(c.Hosts, h)
	if c.opts.StaticNeighbours {
		c.introduce([]*Host{h})
	}
	return h
}

// maxEtcds is the largest number of etcd servers on their host.
const maxEtcds = 5

// EtcdHost returns a host for servers that are not nodes of the network. The first call
// adds it. It has all addresses of EtcdAddrs, and fd00:18::ff01 and the following.
func (c *Cluster) EtcdHost() *Host {
	c.t.Helper()
	if c.etcd == nil {
		c.etcd = c.makeHost("etcd", 255<<8+1)
		var lines []string
		for member := 2; member <= maxEtcds; member++ {
			for f, a := range addressesOf(255<<8 + member) {
				lines = append(lines, fmt.Sprintf("addr add %s/%d dev %s%s", a, underlay[f].Bits(), Uplink, noDAD(a)))
			}
		}
		batch(c.t, c.etcd.NS, lines...)
	}
	return c.etcd
}

// EtcdAddrs returns the addresses for n servers, up to 5: 198.18.255.1 and the
// following.
func EtcdAddrs(members int) (addrs []netip.Addr) {
	for member := 1; member <= min(members, maxEtcds); member++ {
		addrs = append(addrs, addressesOf(255<<8 + member)[subnet.IPv4])
	}
	return addrs
}

// introduce adds the MACs of new hosts to all others, and those of all others to the
// new ones.
func (c *Cluster) introduce(fresh []*Host) {
	c.t.Helper()
	isFresh := make(map[*Host]bool)
	for _, h := range fresh {
		isFresh[h] = true
	}
	for _, h := range c.Hosts {
		var lines []string
		for _, peer := range c.Hosts {
			if peer != h && (isFresh[h] || isFresh[peer]) {
				for _, a := range peer.Addr {
					lines = append(lines, neighbour(a, peer.mac))
				}
			}
		}
		batch(c.t, h.NS, lines...)
	}
}

// finish ends all processes, before the namespaces are removed.
func (c *Cluster) finish() {
	c.mu.Lock()
	daemons, streams, wires := c.daemons, c.streams, c.wires
	c.mu.Unlock()
	for _, s := range streams {
		s.end()
	}
	if c.t.Failed() {
		c.t.Logf("where the kernel dropped packets:\n%s", c.Drops())
	}
	for _, d := range daemons {
		d.finish()
	}
	c.killStragglers()
	for _, w := range wires {
		w.end()
	}
	for _, d := range daemons {
		d.judge()
	}
	if c.t.Failed() {
		for _, d := range daemons {
			c.t.Logf("%s ended with:\n%s", d.Name, tail(d.Log()))
		}
	}
}

// killStragglers ends the processes that daemons have left in the cluster's
// namespaces. Such a process would keep its namespace alive.
func (c *Cluster) killStragglers() {
	procs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		c.t.Error(err)
	}
	for _, proc := range procs {
		// A process that has ended meanwhile is no error.
		i, err := inode(proc + "/ns/net")
		if err != nil || !c.inodes[i] {
			continue
		}
		var pid int
		if _, err := fmt.Sscan(filepath.Base(proc), &pid); err == nil && pid != os.Getpid() {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
}

// batch runs lines of ip inside a namespace, in one process.
func batch(t testing.TB, ns *kerneltest.NS, lines ...string) {
	t.Helper()
	if err := tryBatch(ns, lines...); err != nil {
		t.Fatal(err)
	}
}

func tryBatch(ns *kerneltest.NS, lines ...string) error {
	cmd := exec.Command("ip", "-n", ns.Name, "-batch", "-")
	cmd.Stdin = strings.NewReader(strings.Join(lines, "\n") + "\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("ip -n %s -batch: %w: %sin:\n%s", ns.Name, err, out, strings.Join(lines, "\n"))
	}
	return nil
}

// inode returns the inode of a network namespace, which identifies it.
func inode(path string) (uint64, error) {
	var stat unix.Stat_t
	if err := unix.Stat(path, &stat); err != nil {
		return 0, fmt.Errorf("%s: %w", path, err)
	}
	return stat.Ino, nil
}
