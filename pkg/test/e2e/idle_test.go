package e2e

import (
	"flag"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/test/clustertest"
	"github.com/tulle-net/tulle/pkg/test/tabletest"
	"github.com/tulle-net/tulle/subnet"
)

var idle = flag.Duration("idle", 0, "how long to measure what daemons cost among -peers while nothing changes; prints a table")

// TestIdle measures what a daemon costs while nothing changes. One host stands for all
// its peers: it answers the probes of each peer, and later of none.
func TestIdle(t *testing.T) {
	t.Parallel()
	sizes, program, quiet := []string{"20"}, tulled, time.Second
	if *idle > 0 {
		sizes, program, quiet = strings.Split(*scalePeers, ","), newScale(t).programs[0].command, *idle
	}
	rows := [][]string{{"Idle", "peers", "of them", "processor time of a core", "memory, MiB", "a scrape, kB", "with --peer-metrics, kB", "probes"}}
	for _, size := range sizes {
		n, err := strconv.Atoi(size)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(size, func(t *testing.T) {
			c := newCrowd(t, "vxlan", n)
			everyone := c.answerForAll()
			for _, answer := range []bool{true, false} {
				h := c.AddHosts(1)[0]
				state := t.TempDir() // the host's own disk is too small
				d := h.Start(program, "--etcd-endpoints="+strings.Join(c.etcd.Endpoints(), ","), "--subnet-file="+h.SubnetFile,
					"--node-id="+h.Name, "--state-dir="+state, "--healthz-port=10256", "--peer-metrics")
				c.daemons[h] = d
				d.WaitLog("Kernel in sync with all peers")
				everyone.answers(h, answer)
				b := c.browse(h)
				b.awaitProbes(answer)
				before, began := d.CPU(), time.Now()
				<-time.After(quiet)
				share, memory := float64(d.CPU()-before)/float64(time.Since(began)), residentNow(t, d.PID)
				_, whole, err := b.get("/metrics")
				if err != nil {
					t.Fatal(err)
				}
				few := 0
				for line := range strings.Lines(whole) {
					if !strings.Contains(line, "tulle_peer_") {
						few += len(line)
					}
				}
				words := "answer"
				if !answer {
					words = "do not answer"
				}
				rows = append(rows, []string{"vxlan", size, words, fmt.Sprintf("%.3f %%", 100*share), fmt.Sprintf("%.1f", memory),
					fmt.Sprintf("%.1f", float64(few)/1000), fmt.Sprintf("%.0f", float64(len(whole))/1000), b.probed()})
				d.Kill()
				c.delete(leasesKey + c.key(h))
			}
		})
	}
	to := t.Output()
	if *idle > 0 {
		to = os.Stdout
	}
	fmt.Fprintf(to, "\n%s", tabletest.Markdown(rows...))
}

// everyone is a host that has the underlay and overlay addresses of all peers.
type everyone struct {
	*crowd
	host *clustertest.Host
}

// answerForAll creates that host. It accepts packets to any MAC, and its kernel
// answers for any address.
func (c *crowd) answerForAll() everyone {
	c.t.Helper()
	h := c.AddHosts(1)[0]
	e := everyone{c, h}
	for third := firstHost >> 8; third <= (firstHost+c.peers)>>8; third++ {
		h.NS.IP(c.t, fmt.Sprintf("route add local 198.18.%d.0/24 dev lo", third))
	}
	h.NS.IP(c.t, "link add vx0 type vxlan id 1 dstport 8472 nolearning")
	h.NS.IP(c.t, "link set vx0 mtu 1450 up")
	h.NS.IP(c.t, "route add local 10.0.0.0/8 dev lo")
	for _, setting := range []string{"all", "default", "vx0", "eth0"} {
		h.NS.Sysctl(c.t, "net/ipv4/conf/"+setting+"/rp_filter", "0")
		h.NS.Sysctl(c.t, "net/ipv4/conf/"+setting+"/accept_local", "1")
	}
	h.NS.Sysctl(c.t, "net/ipv4/icmp_ratelimit", "0")
	c.nft(h, "add table netdev crowd; add chain netdev crowd in { type filter hook ingress device vx0 priority 0; }; add rule netdev crowd in meta pkttype set host")
	return e
}

// answers sets whether the host answers a daemon's probes.
func (e everyone) answers(to *clustertest.Host, on bool) {
	e.t.Helper()
	if !on {
		e.host.NS.IP(e.t, "link set vx0 down")
		e.host.NS.IP(e.t, "link set eth0 down")
		return
	}
	var own subnet.Attrs
	var subnets subnet.Pair[netip.Prefix]
	e.eventually(func() error {
		leases, err := e.readLeases()
		if err != nil {
			return err
		}
		if own, err = subnet.ParseAttrs([]byte(leases[e.key(to)])); err != nil {
			return err
		}
		subnets, err = subnetsOf(to) // the daemon writes its env file after its lease
		return err
	})
	mac := strings.Split(own.BackendData[subnet.IPv4], `"`)[5]
	prefix := subnets[subnet.IPv4]
	e.host.NS.IP(e.t, fmt.Sprintf("route replace %s dev vx0 src 10.0.1.0", prefix))
	e.host.NS.IP(e.t, fmt.Sprintf("neigh replace %s lladdr %s dev vx0 nud permanent", prefix.Addr(), mac))
	e.host.NS.Bridge(e.t, fmt.Sprintf("fdb replace %s dev vx0 dst %s", mac, to.Addr[subnet.IPv4]))
}

// browse returns a browser of a host's daemon.
func (w *world) browse(h *clustertest.Host) *browser {
	transport := &http.Transport{DialContext: within(h.NS.Path)}
	w.t.Cleanup(transport.CloseIdleConnections)
	return &browser{w, &http.Client{Transport: transport, Timeout: 10 * time.Second}, "http://127.0.0.1:10256"}
}

// awaitProbes waits until a round of probes has the expected result.
func (b *browser) awaitProbes(well bool) {
	b.t.Helper()
	wants := "tulle_probes_passed_total 0\n"
	b.eventually(func() error {
		_, text, err := b.get("/metrics")
		if err != nil {
			return err
		}
		passed, failed := !strings.Contains(text, wants), strings.Contains(text, `tulle_peers_probe_failing{cause="down"} 8`) || strings.Contains(text, `tulle_peers_probe_failing{cause="down"} 16`)
		if well && !passed || !well && !failed {
			return fmt.Errorf("probes do not work as expected: %s", text)
		}
		return nil
	})
}

// probed returns how many peers were probed, and how many failed.
func (b *browser) probed() string {
	b.t.Helper()
	_, text, err := b.get("/metrics")
	if err != nil {
		b.t.Fatal(err)
	}
	value := func(name string) string {
		_, rest, _ := strings.Cut(text, "\n"+name+" ")
		word, _, _ := strings.Cut(rest, "\n")
		return word
	}
	return fmt.Sprintf("%s peers probed, %s probes passed", value("tulle_peers_probed"), value("tulle_probes_passed_total"))
}

// residentNow returns a process's resident memory in MiB.
func residentNow(t *testing.T, pid int) float64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "VmRSS:")
	var kib float64
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		t.Fatal(err)
	}
	return kib / 1024
}
