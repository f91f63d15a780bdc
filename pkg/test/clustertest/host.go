package clustertest

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/subnet"
)

// MaxHost is the highest number of a host.
const MaxHost = 60000

// Uplink is the interface of each host that faces the others.
const Uplink = "eth0"

// underlay is the network that hosts are in.
var underlay = subnet.Pair[netip.Prefix]{netip.MustParsePrefix("198.18.0.0/16"), netip.MustParsePrefix("fd00:18::/64")}

// Host is a network namespace with an interface on the switch, and a directory.
type Host struct {
	Name   string
	Number int
	NS     *kerneltest.NS
	// Addr are the addresses of the host's Uplink.
	Addr subnet.Pair[netip.Addr]
	// Pods are in the order in which they were added.
	Pods []*Pod

	// Dir holds the host's files, on a disk of its own of diskSize.
	Dir string
	// SubnetFile is run/flannel/subnet.env in Dir. A daemon sees it at
	// /run/flannel/subnet.env, too.
	SubnetFile string
	// StateDir is an empty directory for the files that a daemon keeps between runs.
	StateDir string
	// CNIConfFile is where a daemon may write the CNI config. Its directory exists.
	CNIConfFile string

	c    *Cluster
	mac  string
	port string // its end of the cable on the switch

	cut    bool        // the wire of BreakChecksums, if the cable is one
	spoils atomic.Bool // the wire breaks checksums
}

func (c *Cluster) makeHost(name string, number int) *Host {
	c.t.Helper()
	h := &Host{
		Name: name, Number: number, c: c, Addr: addressesOf(number),
		mac:  fmt.Sprintf("02:18:00:00:%02x:%02x", number>>8, number&255),
		port: fmt.Sprintf("p%d", number),
		Dir:  filepath.Join(c.dir, name),
	}
	h.SubnetFile = filepath.Join(h.Dir, "run/flannel/subnet.env")
	h.StateDir = filepath.Join(h.Dir, "state")
	h.CNIConfFile = filepath.Join(h.Dir, "cni/net.d/10-flannel.conflist")
	h.mount()
	for _, dir := range []string{filepath.Dir(h.SubnetFile), h.StateDir, filepath.Dir(h.CNIConfFile)} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			c.t.Fatal(err)
		}
	}
	if err := os.WriteFile(h.machineID(), fmt.Appendf(nil, "%032x\n", number), 0o444); err != nil {
		c.t.Fatal(err)
	}

	h.NS = c.newNS(name)
	batch(c.t, c.link,
		fmt.Sprintf("link add %s type veth peer name %s address %s netns %s", h.port, Uplink, h.mac, h.NS.Name),
		fmt.Sprintf("link set %s master br0 up", h.port))
	noLinkLocalDAD(h, Uplink)
	if c.opts.StaticNeighbours {
		// Each router would keep an entry for each soliciting host. The kernel's table
		// of IPv6 neighbours, one for all namespaces, has room for 1,024.
		h.NS.Sysctl(c.t, "net/ipv6/conf/"+Uplink+"/router_solicitations", "0")
	}
	batch(c.t, h.NS, append([]string{"link set " + Uplink + " up"}, h.addressing()...)...)
	return h
}

// noLinkLocalDAD makes the link-local address of an interface that is still down usable
// at once, as on an interface that has been up for long. A router solicits neighbours
// from this address, so without this it would reach none until duplicate address
// detection ends.
func noLinkLocalDAD(h *Host, name string) {
	h.c.t.Helper()
	h.NS.Sysctl(h.c.t, "net/ipv6/conf/"+name+"/accept_dad", "0")
}

// newNS creates a namespace that is removed after all processes in it have ended.
func (c *Cluster) newNS(label string) *kerneltest.NS {
	c.t.Helper()
	ns := kerneltest.NewNS(c.t, label)
	c.t.Cleanup(c.end)
	i, err := inode(ns.Path)
	if err != nil {
		c.t.Fatal(err)
	}
	c.inodes[i] = true
	return ns
}

func addressesOf(number int) subnet.Pair[netip.Addr] {
	var p subnet.Pair[netip.Addr]
	for f, network := range underlay {
		b := network.Addr().AsSlice()
		b[len(b)-2], b[len(b)-1] = byte(number>>8), byte(number)
		p[f], _ = netip.AddrFromSlice(b)
	}
	return p
}

// addressing returns the commands that give the uplink its addresses and a default
// route.
func (h *Host) addressing() (lines []string) {
	for f, a := range h.Addr {
		lines = append(lines, fmt.Sprintf("addr add %s/%d dev %s%s", a, underlay[f].Bits(), Uplink, noDAD(a)))
	}
	return append(lines, "route replace default dev "+Uplink, "route replace ::/0 dev "+Uplink)
}

// noDAD disables duplicate address detection, which keeps a new IPv6 address unusable
// for its first seconds.
func noDAD(a netip.Addr) string {
	if subnet.FamilyOf(a) == subnet.IPv6 {
		return " nodad"
	}
	return ""
}

func neighbour(a netip.Addr, mac string) string {
	return fmt.Sprintf("neigh replace %s lladdr %s dev %s nud permanent", a, mac, Uplink)
}

// SetMachineID changes the host's machine-id, for daemons that start later. The
// machine must have one itself, because a daemon sees the host's in its place.
func (h *Host) SetMachineID(id string) {
	h.c.t.Helper()
	if _, err := os.Stat("/etc/machine-id"); err != nil {
		h.c.t.Fatalf("%v: a host has a machine-id only where the machine has one; make one: systemd-machine-id-setup", err)
	}
	if err := os.WriteFile(h.machineID(), []byte(id+"\n"), 0o444); err != nil {
		h.c.t.Fatal(err)
	}
}

func (h *Host) machineID() string { return filepath.Join(h.Dir, "machine-id") }

// Kernel returns the routes, permanent neighbours, forwarding entries and links of the
// host's kernel, one per line and sorted. Equal texts mean equal states. It leaves out
// what the kernel changes by itself, what the host has before any daemon starts, and
// what belongs to the cables of its pods.
func (h *Host) Kernel() string {
	h.c.t.Helper()
	var lines []string
	add := func(kind, out string, keep func(fields []string) bool) {
		for line := range strings.Lines(out) {
			if fields := strings.Fields(line); len(fields) > 0 && keep(fields) {
				lines = append(lines, kind+" "+strings.Join(fields, " "))
			}
		}
	}
	notKernels := func(fields []string) bool { return !slices.Contains(fields, "kernel") }
	add("route", h.NS.IP(h.c.t, "-d route show table all"), notKernels)
	add("route", h.NS.IP(h.c.t, "-6 -d route show table all"), notKernels)
	add("neighbour", h.NS.IP(h.c.t, "neigh show nud permanent"), func(fields []string) bool {
		return !slices.Contains(fields, Uplink) // from StaticNeighbours and Cut
	})
	add("fdb", h.NS.Bridge(h.c.t, "fdb show"), func(fields []string) bool { return slices.Contains(fields, "dst") })
	for line := range strings.Lines(h.NS.IP(h.c.t, "-o link show")) {
		_, line, _ = strings.Cut(line, ": ") // the link's index
		add("link", strings.ReplaceAll(line, `\`, " "), func(fields []string) bool {
			// Without an MTU, this is ip's remark about another link's peer.
			return fields[0] != "lo:" && !strings.Contains(fields[0], "@") && slices.Contains(fields, "mtu")
		})
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n") + "\n"
}
