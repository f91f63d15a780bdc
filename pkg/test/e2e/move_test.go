package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/test/clustertest"
	"github.com/tulle-net/tulle/subnet"
)

// moveTo changes the backend of a network with both families.
func (w *world) moveTo(kind string) {
	w.t.Helper()
	w.put(configKey, `{"Network": "10.5.0.0/16", "EnableIPv6": true, "IPv6Network": "fd00:5::/48", "Backend": {"Type": "`+kind+`"}}`)
}

// moved waits until all hosts have moved to a backend and given up the former one.
func (w *world) moved(to string) {
	w.t.Helper()
	w.eventually(func() error {
		leases, err := w.readLeases()
		if err != nil {
			return err
		}
		for key, value := range leases {
			if !strings.Contains(value, `"BackendType":"`+to+`"`) || strings.Contains(value, `"Move"`) {
				return fmt.Errorf("%s: %s", key, value)
			}
		}
		return nil
	})
	for _, h := range w.Hosts {
		w.eventually(func() error {
			if out, code := w.command(h, "status"); code != 0 {
				return errors.New(out)
			}
			return nil
		})
	}
}

// pingAround sends a ping every few milliseconds from each host to the next, in both families.
func (w *world) pingAround() *streams {
	s := &streams{w: w}
	for i, from := range w.Hosts {
		to := w.Hosts[(i+1)%len(w.Hosts)]
		for f, a := range from.Pods[0].Addr {
			if a.IsValid() {
				s.each = append(s.each, w.PingEvery(from.Pods[0], to.Pods[0], subnet.Family(f), 5*time.Millisecond))
			}
		}
	}
	return s
}

// leftovers are what the kernel shows of each backend.
var leftovers = map[string][]string{
	"vxlan": {"tulle.1", "tulle6.1", "fdb "}, "udp": {"tulle.udp", "tulle6.udp"},
}

// TestMovesLoseNothing moves a running network from backend to backend under pings, and
// kills a daemon in the middle of the moves.
func TestMovesLoseNothing(t *testing.T) {
	t.Parallel()
	w := newNetwork(t, 3, 1, dualConfig)
	for _, h := range w.Hosts {
		w.eventually(func() error { // without it, a new daemon does not know the former backend
			_, err := os.Stat(filepath.Join(h.StateDir, "snapshot"))
			return err
		})
	}
	before := "vxlan"
	for i, kind := range []string{"host-gw", "udp", "vxlan"} {
		p := w.pingAround()
		p.more(20)
		w.moveTo(kind)
		h := w.Hosts[i%len(w.Hosts)]
		w.daemons[h].WaitLog("Moving to another backend")
		if before != "udp" { // whose packets the daemon itself carries
			w.daemons[h].Kill()
			w.start(h)
		}
		w.moved(kind)
		p.more(20)
		p.wantLost(0)
		w.Matrix()
		for _, h := range w.Hosts {
			for _, what := range leftovers[before] {
				if held := h.Kernel(); strings.Contains(held, what) {
					t.Errorf("after the move from %s to %s, %s still has %s:\n%s", before, kind, h.Name, what, held)
				}
			}
		}
		before = kind
	}
}

// TestFlannelNodeStaysOnWhatItSpeaks moves a network that has a flannel node's lease. The
// daemons reach one another by the new backend, and that node by the old one.
func TestFlannelNodeStaysOnWhatItSpeaks(t *testing.T) {
	t.Parallel()
	w := newNetwork(t, 2, 1, vxlan)
	const theirs = "10.5.250.0-24"
	w.lend(leasesKey+theirs, `{"PublicIP":"198.18.0.250","PublicIPv6":null,"BackendType":"vxlan","BackendData":{"VNI":1,"VtepMAC":"3a:66:6c:61:6e:01"}}`)
	reaches := func(h *clustertest.Host, other, flannel string) {
		t.Helper()
		w.eventually(func() error {
			to := w.Hosts[0]
			if h == to {
				to = w.Hosts[1]
			}
			subnets, err := subnetsOf(to)
			if err != nil {
				return err
			}
			for prefix, dev := range map[string]string{subnets[subnet.IPv4].String(): other, "10.5.250.0/24": flannel} {
				if route := h.NS.IP(t, "route show "+prefix); !strings.Contains(route, " dev "+dev) {
					return fmt.Errorf("%s goes to %s by %q, not by %s", h.Name, prefix, route, dev)
				}
			}
			return nil
		})
	}
	p := w.pings(w.Hosts[0], w.Hosts[1])
	p.more(5)
	w.put(configKey, `{"Network": "10.5.0.0/16", "Backend": {"Type": "udp"}}`)
	for _, h := range w.Hosts {
		reaches(h, "tulle.udp", "tulle.1")
	}
	for key, value := range w.leases() {
		if !strings.Contains(value, `"BackendType":"vxlan"`) {
			t.Errorf("flannel cannot read the lease %s: %s", key, value)
		}
	}
	w.delete(leasesKey + theirs)
	w.moved("udp")
	p.more(5)
	p.wantLost(0)
	for _, h := range w.Hosts {
		if held := h.Kernel(); strings.Contains(held, "tulle.1") || strings.Contains(held, "10.5.250.0") {
			t.Errorf("%s still has something of vxlan:\n%s", h.Name, held)
		}
	}
}

// TestConfigThatChangesBackLosesNothing changes the backend, and back in the middle of the
// move, and again.
func TestConfigThatChangesBackLosesNothing(t *testing.T) {
	t.Parallel()
	w := newNetwork(t, 3, 1, dualConfig)
	p := w.pingAround()
	p.more(20)
	for _, kind := range []string{"udp", "vxlan", "udp", "host-gw"} {
		w.moveTo(kind)
		p.more(150) // most of a second: no move ends in that time
	}
	w.moved("host-gw")
	p.more(20)
	p.wantLost(0)
	for _, h := range w.Hosts {
		if held := h.Kernel(); strings.Contains(held, "tulle") {
			t.Errorf("%s still has a tunnel:\n%s", h.Name, held)
		}
	}
}
