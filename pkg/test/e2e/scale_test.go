package e2e

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/tulle-net/tulle/pkg/test/clustertest"
	"github.com/tulle-net/tulle/pkg/test/flanneltest"
	"github.com/tulle-net/tulle/subnet"
)

var (
	scalePeers   = flag.String("peers", "", "sizes of networks to measure daemons in, such as 1000,10000; prints tables")
	scaleRounds  = flag.Int("rounds", 5, "with -peers: number of measurements of each")
	scaleFlannel = flag.Bool("flannel", false, "with -peers: also measure flanneld, in networks in which that takes less than minutes")
)

// program is a daemon that is measured.
type program struct {
	name    string
	command clustertest.Command
	tulle   bool
	// most is the size of the largest network in which it is measured, by backend.
	most map[string]int
}

// scale holds the settings of the benchmark. Without -peers, it runs every measurement once in a
// small network, as a test of itself.
type scale struct {
	programs []program
	sizes    []int
	rounds   int
	more     int // how many times one more lease is recorded
	to       io.Writer
}

const (
	// largest is the size of the largest network that is measured.
	largest = 50000
	// closely is the size of the largest network in which the benchmark records one
	// more lease.
	closely = 10000
)

func newScale(t *testing.T) scale {
	most := map[string]int{"vxlan": largest, "host-gw": largest}
	if *scalePeers == "" {
		return scale{programs: []program{{"tulled", tulled, true, most}}, sizes: []int{20}, rounds: 1, more: 2, to: t.Output()}
	}
	s := scale{rounds: *scaleRounds, more: 100, to: os.Stdout}
	for text := range strings.SplitSeq(*scalePeers, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > largest {
			t.Fatalf("-peers has %q: write numbers from 1 to %d with commas between", text, largest)
		}
		s.sizes = append(s.sizes, n)
	}
	s.programs = append(s.programs, program{"tulled", clustertest.Command{Argv: []string{installed(t)}}, true, most})
	if *scaleFlannel {
		flannel, err := flanneltest.Find()
		if err != nil {
			t.Fatal(err)
		}
		s.programs = append(s.programs, program{"flanneld", clustertest.Command{Argv: []string{flannel.Flanneld}}, false, map[string]int{"vxlan": 10000, "host-gw": 5000}})
	}
	return s
}

// installed builds tulled as it is released, and returns the path of its binary.
func installed(t *testing.T) string {
	dir := t.TempDir()
	linked, binary := filepath.Join(dir, "linked"), filepath.Join(dir, "tulled")
	build := exec.Command("go", "build", "-tags", "grpcnotrace", "-trimpath", "-o", linked, "github.com/tulle-net/tulle")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build tulled: %v: %s", err, out)
	}
	// Copy the binary, as an installation does: how much of a file the kernel maps at
	// once depends on how the file came into the page cache, and a linker leaves that
	// to chance.
	if out, err := exec.Command("cp", linked, binary).CombinedOutput(); err != nil {
		t.Fatalf("install tulled: %v: %s", err, out)
	}
	return binary
}

func (s scale) progress(format string, args ...any) {
	if *scalePeers != "" {
		fmt.Fprintf(os.Stderr, format+"\n", args...)
	}
}

// TestScale measures the daemons as they are released, in turns, from their start until
// the kernel has all peers. The peers' leases are in a real etcd.
func TestScale(t *testing.T) {
	t.Parallel()
	s := newScale(t)
	var all []*measured
	for _, backend := range []string{"vxlan", "host-gw"} {
		for _, peers := range s.sizes {
			t.Run(fmt.Sprintf("%s %d", backend, peers), func(t *testing.T) {
				s.progress("%s: recording %d leases", backend, peers)
				c := newCrowd(t, backend, peers)
				var here []*measured
				for _, p := range s.programs {
					if peers <= p.most[backend] {
						here = append(here, &measured{program: p, backend: backend, peers: peers})
					}
				}
				all = append(all, here...)
				for round := range s.rounds {
					for _, m := range here {
						s.progress("%s: %d leases, %s, round %d", backend, peers, m.name, round+1)
						more := 0
						if round == s.rounds-1 && peers <= closely {
							more = s.more
						}
						c.round(m, more)
					}
				}
			})
			if t.Failed() {
				return
			}
		}
	}
	s.report(all)
}

// crowd is a network of many recorded leases, without hosts.
type crowd struct {
	*world
	backend string
	peers   int
}

func newCrowd(t *testing.T, backend string, peers int) *crowd {
	t.Helper()
	c := &crowd{newWorld(t, 0, 1, fmt.Sprintf(`{"Network": "10.0.0.0/8", "EnableNFTables": true, "Backend": {"Type": %q}}`, backend)), backend, peers}
	c.record()
	return c
}

// record writes all leases, each on an etcd lease of its own.
func (c *crowd) record() {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*patience)
	defer cancel()
	numbers := make(chan int)
	failed := make(chan error)
	const writers = 64
	for range writers {
		go func() {
			var err error
			for n := range numbers {
				if err == nil {
					_, err = c.lease(ctx, n)
				}
			}
			failed <- err
		}()
	}
	for n := range c.peers {
		numbers <- n + 1
	}
	close(numbers)
	for range writers {
		if err := <-failed; err != nil {
			c.t.Errorf("record the leases: %v", err)
		}
	}
	if c.t.Failed() {
		c.t.FailNow()
	}
}

const (
	// firstHost is the number of the host with the first lease. The numbers below it
	// are for hosts that exist.
	firstHost = 1000
	// firstFresh is the first lease that the benchmark records while a daemon runs. It
	// is far from the others, because flannel takes a subnet next to them.
	firstFresh = 60000
)

// of returns the lease of a number, from 1, as tulle would write it.
func (c *crowd) of(number int) subnet.Lease {
	var l subnet.Lease
	l.Subnets[subnet.IPv4] = v4Prefix(10, byte(number>>8), byte(number), 0, 24)
	host := firstHost + number
	l.PublicIP[subnet.IPv4] = v4Prefix(198, 18, byte(host>>8), byte(host), 32).Addr()
	l.BackendType = c.backend
	l.Node = subnet.Node{ID: fmt.Sprintf("%032x", number), Name: fmt.Sprintf("node-%05d", number), MTU: 1500}
	if c.backend == "vxlan" {
		l.BackendData[subnet.IPv4] = fmt.Sprintf(`{"VNI":1,"VtepMAC":"3a:00:00:%02x:%02x:%02x"}`, byte(number>>16), byte(number>>8), byte(number))
		l.Node.MTU = 1450
	}
	return l
}
