package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tulle-net/tulle/pkg/test/clustertest"
	"github.com/tulle-net/tulle/subnet"
)

// list fills s.faults, with each fault as often as its weight. A fault function injects
// its fault and returns it; the result is empty if the fault is impossible now. It
// includes how to undo the fault, unless the network must heal by itself.
func (s *soak) list() {
	add := func(weight int, f func() fault) {
		for range weight {
			s.faults = append(s.faults, f)
		}
	}
	// of picks a node that free accepts.
	of := func(free func(*node) bool, f func(n *node) fault) func() fault {
		return func() fault {
			n := s.nodes[s.rnd.IntN(len(s.nodes))]
			if !free(n) {
				return fault{}
			}
			fault := f(n)
			if fault.what != "" {
				fault.what = n.Name + " " + fault.what
			}
			return fault
		}
	}
	any := func(*node) bool { return true }
	runs := func(n *node) bool { return !n.away }
	add(3, of(runs, s.kill))
	add(2, of(runs, s.stop))
	add(2, of(runs, s.freeze))
	add(2, of(runs, s.restarted))
	add(1, of(runs, func(n *node) fault {
		s.daemons[n.Host].Signal(syscall.SIGHUP)
		return fault{what: "reloads its files"}
	}))
	add(2, of(runs, s.jump))
	add(2, of(func(n *node) bool { return !n.cut }, s.cutOff))
	add(2, of(func(n *node) bool { return !n.unplugged }, func(n *node) fault {
		n.Unplug()
		n.unplugged = true
		return fault{what: "has no cable", undo: func() { n.Plug(); n.unplugged = false }}
	}))
	add(1, of(func(n *node) bool { return !n.cut }, func(n *node) fault {
		s.address++
		n.Readdress(s.address)
		return fault{what: fmt.Sprintf("is %s", n.Addr[subnet.IPv4])}
	}))
	add(2, of(func(n *node) bool { return !n.full }, func(n *node) fault {
		n.FillDisk()
		n.full = true
		return fault{what: "has a full disk", undo: func() { n.FreeDisk(); n.full = false }}
	}))
	add(2, of(any, s.spoilFile))
	add(20, of(any, s.tamper))
	ofMember := func(weight int, f func(m *member) fault) {
		add(weight, func() fault {
			m := s.members[s.rnd.IntN(len(s.members))]
			if m.ended || m.frozen {
				return fault{}
			}
			return f(m)
		})
	}
	ofMember(2, s.endMember)
	ofMember(2, func(m *member) fault {
		m.Freeze()
		m.frozen = true
		return fault{what: m.Endpoint() + " is frozen", undo: func() {
			if m.frozen {
				m.Thaw()
				m.frozen = false
			}
		}}
	})
	ofMember(1, func(m *member) fault {
		m.Restart()
		return fault{what: m.Endpoint() + " was restarted"}
	})
	// asking marks a fault that needs etcd.
	asking := func(f func() fault) func() fault {
		return func() fault {
			if !s.quorum() {
				return fault{}
			}
			return f()
		}
	}
	add(2, asking(s.compact))
	add(2, asking(func() fault {
		n := s.nodes[s.rnd.IntN(len(s.nodes))]
		s.delete(leasesKey + n.key)
		return fault{what: fmt.Sprintf("the lease of %s is deleted", n.Name)}
	}))
	add(1, asking(func() fault {
		s.delete(leasesKey, clientv3.WithPrefix())
		return fault{what: "all leases are deleted"}
	}))
	add(6, asking(s.stranger))
	add(1, s.wipe)
	add(1, s.restore)
}

func (s *soak) kill(n *node) fault {
	s.daemons[n.Host].Kill()
	return fault{what: "has no daemon, which was killed", undo: s.backAfter(n)}
}

func (s *soak) stop(n *node) fault {
	if code := s.daemons[n.Host].Stop(); code != 0 {
		s.t.Errorf("after SIGTERM, the daemon of %s exited with code %d", n.Name, code)
	}
	return fault{what: "has no daemon, which was stopped", undo: s.backAfter(n)}
}

func (s *soak) backAfter(n *node) func() {
	n.away = true
	return func() {
		// Before that line, a signal may end it like any program.
		s.start(n.Host, n.flags...).WaitLog("Starting tulled")
		n.away = false
	}
}

func (s *soak) restarted(n *node) fault {
	s.kill(n).undo()
	return fault{what: "has a new daemon"}
}

func (s *soak) freeze(n *node) fault {
	d := s.daemons[n.Host]
	d.Freeze()
	n.away = true
	return fault{what: "has a frozen daemon", undo: func() {
		d.Thaw()
		n.away = false
	}}
}

func (s *soak) jump(n *node) fault {
	by := time.Duration(s.rnd.IntN(2*86400)-86400) * time.Second
	s.daemons[n.Host].JumpClock(by)
	return fault{what: fmt.Sprintf("has a clock that jumped by %v", by)}
}

func (s *soak) cutOff(n *node) fault {
	members := clustertest.EtcdAddrs(soakMembers)[s.rnd.IntN(soakMembers):] // the last, or more
	for _, a := range members {
		n.Cut(a)
	}
	n.cut = true
	return fault{what: fmt.Sprintf("is cut off from %v", members), undo: func() {
		for _, a := range members {
			n.Heal(a)
		}
		n.cut = false
	}}
}

// spoilFile may fail, for example if the disk is full or the file does not exist.
func (s *soak) spoilFile(n *node) fault {
	path := []string{n.SubnetFile, n.CNIConfFile}[s.rnd.IntN(2)]
	if s.rnd.IntN(2) == 0 {
		return fault{what: fmt.Sprintf("loses %s: %v", filepath.Base(path), os.Remove(path))}
	}
	return fault{what: fmt.Sprintf("has rubbish in %s: %v", filepath.Base(path), os.WriteFile(path, []byte("FLANNEL_SUBNET=10.5.254.1/24\n"), 0o600))}
}

// tamper makes a change by hand in a kernel.
func (s *soak) tamper(n *node) fault {
	f := s.rnd.IntN(2)
	peer, other := s.nodes[s.rnd.IntN(len(s.nodes))], s.nodes[s.rnd.IntN(len(s.nodes))]
	if peer == n {
		return fault{} // tulled does not restore routes to its own pods
	}
	commands := []string{
		"ip link delete DEVICE",
		"ip link set DEVICE down",
		"ip link set DEVICE address 02:00:00:00:00:RANDOM",
		"ip link set DEVICE mtu 1300",
		"ip link set DEVICE group 0",
		"ip addr del OWN dev DEVICE",
		"ip addr flush dev DEVICE",
		"ip FAMILY route del SUBNET",
		"ip FAMILY route flush proto 84",
		"ip FAMILY route replace SUBNET via ELSEWHERE dev DEVICE onlink proto 84",
		"ip FAMILY route append SUBNET via ELSEWHERE dev DEVICE onlink proto 84",
		"ip FAMILY route add STRAY via ELSEWHERE dev DEVICE onlink proto 84",
		"ip neigh del GATEWAY dev DEVICE",
		"ip neigh replace GATEWAY lladdr 02:00:00:00:00:RANDOM dev DEVICE nud permanent",
		"ip neigh replace UNUSED lladdr 02:00:00:00:00:RANDOM dev DEVICE nud permanent",
		"ip neigh flush dev DEVICE nud permanent",
		"bridge fdb del MAC dev DEVICE",
		"bridge fdb replace MAC dev DEVICE dst NOWHERE",
		"bridge fdb append 02:00:00:00:00:RANDOM dev DEVICE dst NOWHERE",
		"sysctl -q -w SETTING=0",
	}
	command := strings.NewReplacer(
		"DEVICE", devices[f], "FAMILY", []string{"-4", "-6"}[f], "SUBNET", peer.subnets[f].String(), "GATEWAY", peer.subnets[f].Addr().String(),
		"ELSEWHERE", other.subnets[f].Addr().String(), "MAC", peer.macs[f], "RANDOM", fmt.Sprintf("%02x", s.rnd.IntN(256)),
		"OWN", fmt.Sprintf("%s/%d", n.subnets[f].Addr(), n.subnets[f].Addr().BitLen()),
		"STRAY", []string{"10.99.0.0/24", "fd00:99::/64"}[f], "UNUSED", []string{"10.99.0.0", "fd00:99::"}[f], "NOWHERE", []string{"198.18.99.99", "fd00:18::9999"}[f],
		"SETTING", []string{"net.ipv4.conf.all.forwarding", "net.ipv6.conf.all.forwarding"}[f],
	).Replace(commands[s.rnd.IntN(len(commands))])
	text := "has done by hand: " + command
	if out, err := n.NS.Command(strings.Fields(command)...).CombinedOutput(); err != nil {
		text += ", which failed: " + strings.TrimSpace(string(out))
	}
	return fault{what: text}
}

func (s *soak) endMember(m *member) fault {
	how := "was stopped"
	if s.rnd.IntN(2) == 0 {
		how = "was killed"
		m.Kill()
	} else {
		m.Stop()
	}
	m.ended = true
	return fault{what: m.Endpoint() + " " + how, undo: func() {
		if m.ended {
			m.Restart()
			m.ended = false
		}
	}}
}

func (s *soak) compact() fault {
	s.ask(func(ctx context.Context) error {
		r, err := s.client.Get(ctx, configKey)
		if err != nil {
			return err
		}
		if _, err = s.client.Compact(ctx, r.Header.Revision); errors.Is(err, rpctypes.ErrCompacted) {
			return nil // this revision was compacted before
		}
		return err
	})
	return fault{what: "etcd compacted its history"}
}

// stranger writes the lease of a node without a host, or a lease that every node
// rejects.
func (s *soak) stranger() fault {
	s.strangers++
	id := fmt.Sprintf("%02x", s.strangers%256)
	v4, v6 := s.free()
	key := fmt.Sprintf("%s-24&%s-64", v4, v6)
	value := `{"PublicIP":"198.18.200.1","PublicIPv6":"fd00:18::c801","BackendType":"vxlan",` +
		`"BackendData":{"VNI":1,"VtepMAC":"02:04:00:00:00:` + id + `"},"BackendV6Data":{"VNI":1,"VtepMAC":"02:06:00:00:00:` + id + `"}}`
	switch s.rnd.IntN(8) {
	case 0:
		value = "rubbish"
	case 1:
		value = strings.ReplaceAll(value, "198.18.200.1", "nowhere")
	case 2:
		value = strings.ReplaceAll(value, "02:0", "ff:0")
	case 3:
		key = "10.99.1.0-24&fd00:99::-64"
	case 4:
		key = "0.0.0.0-0"
	}
	s.lend(leasesKey+key, value)
	return fault{what: fmt.Sprintf("a stranger writes %s = %s", key, value), undo: func() { s.delete(leasesKey + key) }, asks: true, harmless: true}
}

// quorum reports whether etcd works.
func (s *soak) quorum() bool {
	up := 0
	for _, m := range s.members {
		if !m.ended && !m.frozen {
			up++
		}
	}
	return 2*up > len(s.members)
}

// free returns subnets that no node has.
func (s *soak) free() (v4, v6 netip.Addr) {
	for {
		i := byte(1 + s.rnd.IntN(254))
		v4, v6 = netip.AddrFrom4([4]byte{10, 5, i, 0}), netip.AddrFrom16([16]byte{0xfd, 0, 0, 5, 0, 0, 0, i})
		if !slices.ContainsFunc(s.nodes, func(n *node) bool {
			return n.subnets[subnet.IPv4].Contains(v4) || n.subnets[subnet.IPv6].Contains(v6)
		}) {
			return v4, v6
		}
	}
}

// wipe empties etcd, and writes the config again as a person would.
func (s *soak) wipe() fault {
	s.etcd.Wipe()
	s.membersRun()
	s.bare = true
	return s.bared("etcd has lost all its data")
}

// bared returns a fault that leaves etcd without the config.
func (s *soak) bared(what string) fault {
	return fault{what: what, undo: func() {
		s.put(configKey, dualConfig)
		s.bare = false
	}, asks: true}
}

// restore restores etcd from a backup, or makes another one. A backup without the
// config restores an etcd without it.
func (s *soak) restore() fault {
	defer s.membersRun()
	if s.rnd.IntN(3) == 0 {
		s.backup, s.bareBackup = s.etcd.Snapshot(), s.bare
		return fault{what: "etcd was stopped for a backup"}
	}
	s.etcd.Restore(s.backup)
	if s.bare = s.bareBackup; s.bare {
		return s.bared("etcd was restored from a backup without the config")
	}
	return fault{what: "etcd was restored from a backup"}
}

// membersRun records that all members run, after a fault that restarts them.
func (s *soak) membersRun() {
	for _, m := range s.members {
		m.ended, m.frozen = false, false
	}
}
