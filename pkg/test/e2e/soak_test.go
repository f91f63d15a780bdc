package e2e

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/test/clustertest"
	"github.com/tulle-net/tulle/pkg/test/etcdtest"
	"github.com/tulle-net/tulle/subnet"
)

var (
	soakFor  = flag.Duration("soak", 3*time.Minute, "how long TestSoak runs")
	soakSeed = flag.Uint64("soak-seed", 0, "seed of TestSoak's faults; 0 is a random one")
)

const (
	soakNodes   = 20
	soakMembers = 3
	stormLength = 20 * time.Second
	atOnce      = 10 // limit of the faults
	// restLimit is how long it may take until everything works after the last fault has
	// ended. A daemon that has failed often waits up to a minute before it retries.
	restLimit = 2 * time.Minute
)

// TestSoak injects all faults, several at a time, and then none for a while. Each time,
// every kernel must come to hold exactly what the leases in etcd require, and every
// node must have its first subnet. A seed determines the faults. It does not determine
// how the daemons react, so a test that failed with a seed may pass the next time.
func TestSoak(t *testing.T) {
	t.Parallel()
	s := newSoak(t, cmp.Or(*soakSeed, rand.Uint64()))
	for rests := 1; time.Since(s.began) < *soakFor; rests++ {
		s.storm()
		s.rest(rests)
	}
}

// soak is a network under faults.
type soak struct {
	*world
	rnd       *rand.Rand
	began     time.Time
	nodes     []*node
	members   []*member
	backup    etcdtest.Backup
	faults    []func() fault
	wrong     []fault // to be undone
	address   int     // number of the last one that a host was given
	strangers int
	first     int // the node to be checked first
	// bare and bareBackup report that etcd, or its backup, lacks the config.
	bare, bareBackup bool
}

type node struct {
	*clustertest.Host
	key   string // the key of its lease, which never changes
	lease        // the first lease
	flags []string
	// Faults that affect the node now, so that the same fault is not injected twice.
	away, cut, unplugged, full bool
}

type member struct {
	*etcdtest.Member
	ended, frozen bool
}

// fault is something that is wrong.
type fault struct {
	what  string
	until time.Time
	undo  func() // nil if the network must heal by itself
	// asks marks a fault that needs etcd. harmless marks one that may continue while
	// everything must work.
	asks, harmless bool
}

func newSoak(t *testing.T, seed uint64) *soak {
	t.Helper()
	s := &soak{
		world: newWorld(t, soakNodes, soakMembers, dualConfig), rnd: rand.New(rand.NewPCG(seed, 0)),
		began: time.Now(), address: 1000,
	}
	s.log("the seed is %d", seed)
	for i, h := range s.Hosts {
		n := &node{Host: h}
		if i%2 == 0 { // renewed every five seconds
			n.flags = []string{"--subnet-lease-ttl=125s", "--subnet-lease-renew-margin=2"}
		}
		s.nodes = append(s.nodes, n)
		s.start(h, n.flags...)
		// These are foreign, and must stay.
		for _, command := range []string{
			"link add other type veth peer name others", "link set other up", "link set others up", "route add 203.0.113.0/24 dev other proto static", "-6 route add 2001:db8::/64 dev other proto static",
			"neigh add 203.0.113.1 lladdr 02:00:00:00:00:01 dev other nud permanent",
		} {
			h.NS.IP(t, command)
		}
	}
	for _, n := range s.nodes {
		n.AddPod()
	}
	s.Matrix()
	leases := s.leases()
	for _, n := range s.nodes {
		var err error
		n.key = s.key(n.Host)
		if n.lease, err = parseLease(n.key, leases[n.key]); err != nil {
			t.Fatal(err)
		}
	}
	for i := range soakMembers {
		s.members = append(s.members, &member{Member: s.etcd.Member(i)})
	}
	for _, n := range s.nodes {
		// From now on a node has its subnet in its snapshot, whatever happens to etcd.
		s.await(func() error {
			files, err := os.ReadDir(n.StateDir)
			if err == nil && len(files) == 0 {
				err = fmt.Errorf("%s has saved nothing", n.Name)
			}
			return err
		})
	}
	s.backup = s.etcd.Snapshot()
	s.list()
	return s
}

func (s *soak) log(format string, args ...any) {
	s.t.Logf("%6.1f s: %s", time.Since(s.began).Seconds(), fmt.Sprintf(format, args...))
}

// storm starts and ends faults for some time.
func (s *soak) storm() {
	s.t.Helper()
	end := time.After(stormLength)
	for {
		select {
		case <-end:
			return
		case <-time.After(time.Duration(s.rnd.IntN(400)) * time.Millisecond):
		}
		s.undo(func(f fault) bool { return time.Now().After(f.until) && (!f.asks || s.quorum()) })
		if len(s.wrong) >= atOnce {
			continue
		}
		f := s.faults[s.rnd.IntN(len(s.faults))]()
		if f.what == "" {
			continue
		}
		s.log("%s", f.what)
		if f.undo != nil {
			f.until = time.Now().Add(time.Duration(s.rnd.IntN(12000)) * time.Millisecond)
			if s.rnd.IntN(8) == 0 {
				f.until = f.until.Add(stormLength)
			}
			s.wrong = append(s.wrong, f)
		}
	}
}

// undo undoes the faults that which selects.
func (s *soak) undo(which func(fault) bool) {
	s.wrong = slices.DeleteFunc(s.wrong, func(f fault) bool {
		due := which(f)
		if due {
			s.log("over: %s", f.what)
			f.undo()
		}
		return due
	})
}

// rest ends all faults, and waits until everything works.
func (s *soak) rest(number int) {
	s.t.Helper()
	s.rnd.Shuffle(len(s.wrong), func(i, j int) { s.wrong[i], s.wrong[j] = s.wrong[j], s.wrong[i] })
	s.undo(func(f fault) bool { return !f.asks })
	s.undo(func(f fault) bool { return !f.harmless || s.rnd.IntN(2) == 0 })
	s.log("rest %d: no fault is left except %d leases of strangers", number, len(s.wrong))
	start := time.Now()
	var leases map[string]string
	var last error
	s.await(func() (err error) {
		if leases, err = s.readLeases(); err == nil {
			err = s.check(leases)
		}
		last = cmp.Or(err, last)
		return err
	})
	s.log("rest %d: all kernels, files and leases are correct after %v; what took longest: %.400v", number, time.Since(start).Round(time.Millisecond), last)
	s.Matrix()
	// This must not change.
	if err := s.check(leases); err != nil {
		s.t.Fatalf("at rest: %v", err)
	}
	var files, memory int64
	for _, n := range s.nodes {
		d := s.daemons[n.Host]
		open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", d.PID))
		if err != nil {
			s.t.Fatal(err)
		}
		files, memory = max(files, int64(len(open))), max(memory, d.PeakMemory())
	}
	s.log("rest %d: all reach all; a daemon has up to %d files open and has used up to %d MiB", number, files, memory>>20)
}

// await waits until f returns no error. It polls less often than other waits do,
// because each check is expensive.
func (s *soak) await(f func() error) {
	s.t.Helper()
	limit := time.NewTimer(restLimit)
	defer limit.Stop()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		err := f()
		if err == nil {
			return
		}
		select {
		case <-limit.C:
			says, _ := s.world.command(s.nodes[s.first].Host, "status")
			s.log("after %v still: %v; %s says\n%s", restLimit, err, s.nodes[s.first].Name, says)
			s.t.FailNow()
		case <-tick.C:
		}
	}
}

// check returns an error for each difference from the leases in etcd.
func (s *soak) check(leases map[string]string) error {
	believed := make(map[string]lease)
	for key, value := range leases {
		if l, err := parseLease(key, value); err == nil {
			believed[key] = l
		}
	}
	for key, l := range believed {
		for other, o := range believed {
			if key != other && (l.subnets[subnet.IPv4].Overlaps(o.subnets[subnet.IPv4]) || l.subnets[subnet.IPv6].Overlaps(o.subnets[subnet.IPv6])) {
				return fmt.Errorf("%s and %s overlap", key, other)
			}
		}
	}
	for i := range s.nodes {
		at := (s.first + i) % len(s.nodes)
		n := s.nodes[at]
		if err := s.checkNode(n, believed); err != nil {
			s.first = at
			return fmt.Errorf("%s, %s: %w", n.Name, n.key, err)
		}
	}
	return nil
}

func (s *soak) checkNode(n *node, believed map[string]lease) error {
	d := s.daemons[n.Host]
	if !d.Running() {
		s.t.Fatalf("%s has ended by itself", d.Name)
	}
	own, ok := believed[n.key]
	if !ok || own.at != n.Addr || own.macs != n.macs {
		return fmt.Errorf("its lease has %v and %v; its addresses are %v, and its MACs were %v", own.at, own.macs, n.Addr, n.macs)
	}
	for key, l := range believed {
		if key != n.key && l.at == n.Addr {
			return fmt.Errorf("it also has the lease %s", key)
		}
	}
	env, err := os.ReadFile(n.SubnetFile)
	want := fmt.Sprintf("FLANNEL_NETWORK=10.5.0.0/16\nFLANNEL_SUBNET=%s/24\nFLANNEL_IPV6_NETWORK=fd00:5::/48\nFLANNEL_IPV6_SUBNET=%s/64\nFLANNEL_MTU=1430\n",
		n.subnets[subnet.IPv4].Addr().Next(), n.subnets[subnet.IPv6].Addr().Next())
	if err != nil || !strings.HasPrefix(string(env), want) {
		return fmt.Errorf("the env file is %q: %w", env, err)
	}
	conf, err := os.ReadFile(n.CNIConfFile)
	if err != nil || !json.Valid(conf) || !strings.Contains(string(conf), n.subnets[subnet.IPv4].String()) || !strings.Contains(string(conf), n.subnets[subnet.IPv6].String()) {
		return fmt.Errorf("the CNI configuration is %q: %w", conf, err)
	}
	has, err := kernelOf(n.Host)
	if err != nil {
		return err
	}
	return difference(has, expected(n.key, believed))
}
