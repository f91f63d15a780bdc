//go:build flannel

package e2e

import (
	"fmt"
	"maps"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/tulle-net/tulle/pkg/test/clustertest"
	"github.com/tulle-net/tulle/pkg/test/flanneltest"
	"github.com/tulle-net/tulle/subnet"
)

var flannel = sync.OnceValues(flanneltest.Find)

// flannelConfigs are networks that both daemons can serve, and whose devices outlive the
// daemon. Flannel requires the module br_netfilter unless it uses nftables. If the config
// names no backend, flannel uses its old udp backend, contrary to its documentation.
var flannelConfigs = map[string]string{
	"vxlan":           `{"Network": "10.5.0.0/16", "EnableNFTables": true, "Backend": {"Type": "vxlan"}}`,
	"vxlan direct":    `{"Network": "10.5.0.0/16", "EnableNFTables": true, "Backend": {"Type": "vxlan", "DirectRouting": true}}`,
	"vxlan of both":   `{"Network": "10.5.0.0/16", "EnableNFTables": true, "EnableIPv6": true, "IPv6Network": "fd00:5::/48", "Backend": {"Type": "vxlan"}}`,
	"host-gw":         `{"Network": "10.5.0.0/16", "EnableNFTables": true, "Backend": {"Type": "host-gw"}}`,
	"host-gw of both": `{"Network": "10.5.0.0/16", "EnableNFTables": true, "EnableIPv6": true, "IPv6Network": "fd00:5::/48", "Backend": {"Type": "host-gw"}}`,
}

// flannelUDP is a network of which flanneld's device ends with its process.
const flannelUDP = `{"Network": "10.5.0.0/16", "EnableNFTables": true, "Backend": {"Type": "udp"}}`

// startFlannel runs flanneld on a host, and waits until it handles its peers.
func (w *world) startFlannel(h *clustertest.Host) {
	w.t.Helper()
	f, err := flannel()
	if err != nil {
		w.t.Fatal(err)
	}
	d := h.Start(clustertest.Command{Argv: []string{f.Flanneld}}, "--etcd-endpoints="+strings.Join(w.etcd.Endpoints(), ","), "--subnet-file="+h.SubnetFile)
	w.daemons[h] = d
	d.WaitLog("Running backend")
}

// reachTulle waits until the pods of the hosts reach all other pods, and the other way
// round. Between two flannels over IPv6, full-size packets do not pass a vxlan: flannel
// leaves no room for the longer header.
func (w *world) reachTulle(hosts ...*clustertest.Host) {
	w.t.Helper()
	for _, tulle := range hosts {
		for _, h := range w.Hosts {
			if h != tulle {
				w.Reach(h.Pods[0], tulle.Pods[0])
				w.Reach(tulle.Pods[0], h.Pods[0])
			}
		}
	}
}

// TestFlannelBeside runs two daemons of each kind in one network. All pods reach one
// another. When a node leaves, nodes of both kinds remove it.
func TestFlannelBeside(t *testing.T) {
	configs := maps.Clone(flannelConfigs)
	configs["udp"] = flannelUDP
	for name, config := range configs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 4, 1, config)
			flannels := []*clustertest.Host{w.Hosts[0], w.Hosts[2]}
			tulles := []*clustertest.Host{w.Hosts[1], w.Hosts[3]}
			for i := range flannels {
				w.startFlannel(flannels[i])
				w.start(tulles[i])
			}
			for _, h := range w.Hosts {
				h.AddPod()
			}
			w.reachTulle(tulles...)
			if name != "vxlan of both" {
				w.Matrix()
			}
			for _, h := range tulles {
				if log := w.daemons[h].Log(); strings.Contains(log, "Rejected a lease") || strings.Contains(log, "Peer unroutable") {
					t.Errorf("%s rejects leases:\n%s", h.Name, log)
				}
			}
			for _, gone := range w.Hosts[:2] {
				key := w.key(gone)
				w.daemons[gone].Kill()
				w.delete(leasesKey + key)
				w.eventually(func() error { return w.forgotten(key, w.Hosts[2:]) })
			}
			w.Reach(flannels[1].Pods[0], tulles[1].Pods[0])
			w.Reach(tulles[1].Pods[0], flannels[1].Pods[0])
		})
	}
}

// forgotten returns an error if a host still has objects of a deleted lease.
func (w *world) forgotten(key string, hosts []*clustertest.Host) error {
	subnets, err := subnet.ParseKey(key)
	if err != nil {
		return err
	}
	for _, h := range hosts {
		text := h.Kernel()
		for _, s := range subnets {
			if s.IsValid() && strings.Contains(text, s.Addr().String()) {
				return fmt.Errorf("%s still has objects of the lease %s:\n%s", h.Name, key, text)
			}
		}
	}
	return nil
}

// TestFlannelReplaced replaces flanneld with tulled on a host, and tulled with flanneld
// again. Pings from and to a flannel and a tulle run meanwhile.
func TestFlannelReplaced(t *testing.T) {
	for name, config := range flannelConfigs {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 3, 1, config)
			w.replaceFlannel()
		})
	}
}

// TestFlannelReplacedAmongMany does the same in a network so large that tulle's routes
// have other metrics than flannel's. Once flannel has made its own vxlan routes again,
// tulle's can be removed.
func TestFlannelReplacedAmongMany(t *testing.T) {
	for _, backend := range []string{"vxlan", "host-gw"} {
		t.Run(backend, func(t *testing.T) {
			c := newCrowd(t, backend, 1100)
			c.AddHosts(3)
			c.replaceFlannel()
		})
	}
}

// replaceFlannel needs a world of three hosts on which no daemon runs yet.
func (w *world) replaceFlannel() {
	w.t.Helper()
	one := w.Hosts[0]
	w.startFlannel(one)
	w.startFlannel(w.Hosts[1])
	w.start(w.Hosts[2])
	for _, h := range w.Hosts {
		h.AddPod()
	}
	w.reachTulle(w.Hosts[2])
	w.answers(one, w.Hosts[1])
	var key, lease, kernel string
	w.eventually(func() error {
		key, kernel = w.key(one), withoutWriter(one.Kernel())
		lease = w.leases()[key]
		return w.allPeers(one)
	})

	flood := w.floods(one)
	// If a lease changes while flanneld stops, flanneld may never end.
	w.daemons[one].Kill()
	flood.more(1000)
	w.restart(one)
	flood.more(1000)
	flood.wantLost(0)
	// What a peer reads of the node is unchanged; tulle only adds to it.
	if now := w.leases()[w.key(one)]; w.key(one) != key || !strings.HasPrefix(now, strings.TrimSuffix(lease, "}")) {
		w.t.Errorf("the lease is %s: %s, and was %s: %s", w.key(one), now, key, lease)
	}
	if now := withoutWriter(one.Kernel()); now != kernel {
		w.t.Errorf("the kernel holds\n%s\nand held\n%s", now, kernel)
	}
	w.reachTulle(w.Hosts[2])
	w.answers(one, w.Hosts[1])

	flood = w.floods(one)
	w.daemons[one].Stop()
	flood.more(1000)
	w.startFlannel(one)
	w.eventually(func() error { return w.allPeers(one) })
	flood.more(1000)
	if now := w.leases(); w.key(one) != key || now[key] != lease {
		w.t.Errorf("the lease is %s: %s, and was %s: %s", w.key(one), now[w.key(one)], key, lease)
	}
	if strings.Contains(one.Kernel(), "flannel.1") {
		w.eventually(func() error { return rewritten(one) })
		one.NS.IP(w.t, "route flush proto 84")
		flood.more(1000)
	}
	flood.wantLost(0)
	if now := withoutWriter(one.Kernel()); now != kernel {
		w.t.Errorf("the kernel holds\n%s\nand held\n%s", now, kernel)
	}
	w.reachTulle(w.Hosts[2])
}

// allPeers returns an error unless the kernel of a host has routes to all others that
// have a lease.
func (w *world) allPeers(h *clustertest.Host) error {
	leases, err := w.readLeases()
	if err != nil {
		return err
	}
	own, text := w.key(h), h.Kernel()
	for key := range leases {
		subnets, err := subnet.ParseKey(key)
		if err != nil {
			return err
		}
		for _, s := range subnets {
			if s.IsValid() && key != own && !strings.Contains(text, s.String()+" via ") {
				return fmt.Errorf("%s has no route to %s", h.Name, s)
			}
		}
	}
	return nil
}

// rewritten returns an error if a host has a route of tulle's where flannel has none.
func rewritten(h *clustertest.Host) error {
	tulles, others := make(map[string]bool), make(map[string]bool)
	for line := range strings.Lines(h.Kernel()) {
		if to, route := strings.CutPrefix(line, "route unicast "); route {
			to, _, _ = strings.Cut(to, " ")
			if strings.Contains(line, " proto 84 ") {
				tulles[to] = true
			} else {
				others[to] = true
			}
		}
	}
	for to := range tulles {
		if !others[to] {
			return fmt.Errorf("%s has no route of flannel's to %s", h.Name, to)
		}
	}
	return nil
}

// answers waits until pings with small packets pass between the first pods of two
// hosts.
func (w *world) answers(a, b *clustertest.Host) {
	w.t.Helper()
	for _, pair := range [][2]*clustertest.Host{{a, b}, {b, a}} {
		for _, each := range w.pings(pair[0], pair[1]).each {
			if !each.WaitAnswered(1) {
				w.t.Fatalf("%s does not reach %s: %s", pair[0].Name, pair[1].Name, each.Stop())
			}
			each.Stop()
		}
	}
}

// floods starts floods between the pod of a host and those of all others, both ways
// and in every family.
func (w *world) floods(one *clustertest.Host) *streams {
	s := &streams{w: w}
	for _, h := range w.Hosts {
		for f, a := range h.Pods[0].Addr {
			if h != one && a.IsValid() {
				s.each = append(s.each, w.Flood(one.Pods[0], h.Pods[0], subnet.Family(f)), w.Flood(h.Pods[0], one.Pods[0], subnet.Family(f)))
			}
		}
	}
	return s
}

// withoutWriter returns the text of a kernel without what shows which daemon wrote the
// objects.
func withoutWriter(kernel string) string {
	return handwriting.ReplaceAllString(kernel, "")
}

var handwriting = regexp.MustCompile(` (proto|group) (boot|default|84)| metric [0-9]+`)

// TestFlannelReplaces replaces a tulled that was the first daemon on its host with
// flanneld, as Documentation describes. Flannel adopts the tunnels once they have
// flannel's names.
func TestFlannelReplaces(t *testing.T) {
	for name, config := range flannelConfigs {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 3, 1, config)
			one := w.Hosts[0]
			w.start(one)
			w.startFlannel(w.Hosts[1])
			w.start(w.Hosts[2])
			for _, h := range w.Hosts {
				h.AddPod()
			}
			w.reachTulle(one, w.Hosts[2])
			key := w.key(one)
			flood := w.floods(one)
			w.daemons[one].Stop()
			for from, to := range map[string]string{"tulle.1": "flannel.1", "tulle6.1": "flannel-v6.1"} {
				if strings.Contains(one.Kernel(), "link "+from+":") {
					one.NS.IP(t, "link set "+from+" name "+to)
				}
			}
			w.startFlannel(one)
			w.eventually(func() error { return w.allPeers(one) })
			flood.more(1000)
			flood.wantLost(0)
			if now := w.key(one); now != key {
				t.Errorf("the subnet was %s and is %s", key, now)
			}
			w.reachTulle(w.Hosts[2])
		})
	}
}
