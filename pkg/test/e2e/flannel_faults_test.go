//go:build flannel

package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tulle-net/tulle/pkg/test/clustertest"
	"github.com/tulle-net/tulle/subnet"
)

// pair is two hosts that run the same kind of daemon, with a pod each.
type pair struct {
	*world
	one, two *clustertest.Host
	device   string
	restart  func(h *clustertest.Host) // may fail
}

// reach returns an error if the pods do not reach one another.
func (p *pair) reach() error {
	for _, hosts := range [][2]*clustertest.Host{{p.one, p.two}, {p.two, p.one}} {
		to := hosts[1].Pods[0].Addr[subnet.IPv4].String()
		if out, err := exec.Command("ip", "netns", "exec", hosts[0].Pods[0].NS.Name, "ping", "-c1", "-W1", to).CombinedOutput(); err != nil {
			return fmt.Errorf("ping %s: %w: %s", to, err, out)
		}
	}
	return nil
}

// lacks returns an error if the first host's kernel contains text.
func (p *pair) lacks(what string) error {
	if held := p.one.Kernel(); strings.Contains(held, what) {
		return fmt.Errorf("%s is in\n%s", what, held)
	}
	return nil
}

// moreFaults are faults, each with the condition that ends it.
var moreFaults = []struct {
	name  string
	fault func(p *pair) (over func() error)
}{
	{"a peer's route is deleted", func(p *pair) func() error {
		p.one.NS.IP(p.t, "route flush root 10.5.0.0/16 dev "+p.device)
		return p.reach
	}},
	{"a peer's neighbour entry is deleted", func(p *pair) func() error {
		peer, err := subnetsOf(p.two)
		if err != nil {
			p.t.Fatal(err)
		}
		p.one.NS.IP(p.t, "neigh del "+peer[subnet.IPv4].Addr().String()+" dev "+p.device)
		return p.reach
	}},
	{"a peer's forwarding entry is deleted", func(p *pair) func() error {
		for line := range strings.Lines(p.one.NS.Bridge(p.t, "fdb show dev "+p.device)) {
			p.one.NS.Bridge(p.t, "fdb del "+strings.Fields(line)[0]+" dev "+p.device+" dst "+p.two.Addr[subnet.IPv4].String())
		}
		return p.reach
	}},
	{"the device is deleted", func(p *pair) func() error {
		p.one.NS.IP(p.t, "link del "+p.device)
		return p.reach
	}},
	{"the device goes down and up", func(p *pair) func() error {
		p.one.NS.IP(p.t, "link set "+p.device+" down")
		p.one.NS.IP(p.t, "link set "+p.device+" up")
		return p.reach
	}},
	{"the env file is deleted", func(p *pair) func() error {
		remove(p.t, p.one.SubnetFile)
		return func() error { _, err := os.Stat(p.one.SubnetFile); return err }
	}},
	{"the host has another address", func(p *pair) func() error {
		p.one.Readdress(77)
		return p.reach
	}},
	{"all leases are deleted", func(p *pair) func() error {
		p.delete(leasesKey, clientv3.WithPrefix())
		return func() error {
			leases, err := p.readLeases()
			if err == nil && len(leases) != 2 {
				err = fmt.Errorf("there are %v", leases)
			}
			return errors.Join(err, p.reach())
		}
	}},
	{"the host boots without etcd", func(p *pair) func() error {
		if p.device == "tulle.1" {
			p.eventually(func() error { _, err := os.Stat(p.one.StateDir + "/snapshot"); return err })
		}
		p.etcd.Member(0).Stop()
		p.daemons[p.one].Kill()
		p.one.NS.IP(p.t, "link del "+p.device)
		remove(p.t, p.one.SubnetFile)
		p.restart(p.one)
		return p.reach
	}},
	{"a peer goes while the daemon is away", func(p *pair) func() error {
		key, peer := p.key(p.two), p.two.Pods[0].Addr[subnet.IPv4].String()
		p.daemons[p.one].Kill()
		p.daemons[p.two].Kill()
		p.delete(leasesKey + key)
		p.restart(p.one)
		return func() error { return p.lacks(strings.TrimSuffix(peer, ".2") + ".0/24") }
	}},
	{"a lease is outside the network", func(p *pair) func() error {
		attrs := `{"PublicIP":"198.18.0.77","BackendType":"vxlan","BackendData":{"VNI":1,"VtepMAC":"3a:00:00:00:00:01"}}`
		p.lend(leasesKey+"10.99.1.0-24", attrs)
		// Once a daemon has processed a later change, it has also processed this one.
		p.lend(leasesKey+"10.5.99.0-24", strings.ReplaceAll(attrs, "77", "78"))
		p.eventually(func() error {
			if held := p.one.Kernel(); !strings.Contains(held, "10.5.99.0/24") {
				return errors.New(held)
			}
			return nil
		})
		return func() error { return p.lacks("10.99.1.0") }
	}},
}

// TestFlannelFaults injects the same faults into a pair of tulles and into a pair of
// flannels. The tulles must recover from all of them. The test logs whether the
// flannels recover within half a minute.
func TestFlannelFaults(t *testing.T) {
	for _, b := range moreFaults {
		for _, kind := range []string{"tulle", "flannel"} {
			t.Run(b.name+"/"+kind, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, 2, 1, flannelConfigs["vxlan"])
				p := &pair{w, w.Hosts[0], w.Hosts[1], kind + ".1", func(h *clustertest.Host) { w.start(h) }}
				for _, h := range w.Hosts {
					if kind == "tulle" {
						w.start(h)
					} else {
						w.startFlannel(h)
					}
				}
				if kind == "flannel" {
					f, err := flannel()
					if err != nil {
						t.Fatal(err)
					}
					p.restart = func(h *clustertest.Host) {
						w.daemons[h] = h.Start(clustertest.Command{Argv: []string{f.Flanneld}}, "--etcd-endpoints="+w.etcd.Endpoints()[0], "--subnet-file="+h.SubnetFile)
					}
				}
				for _, h := range w.Hosts {
					h.AddPod()
				}
				w.Matrix()
				over := b.fault(p)
				if kind == "tulle" {
					w.eventually(over)
					return
				}
				deadline, tick := time.After(30*time.Second), time.NewTicker(100*time.Millisecond)
				defer tick.Stop()
				for over() != nil {
					select {
					case <-deadline:
						t.Log("not within half a minute")
						for _, d := range w.daemons {
							if !d.Running() {
								t.Logf("%s exited with code %d", d.Name, d.Wait())
							}
						}
						return
					case <-tick.C:
					}
				}
				t.Log("it is over")
			})
		}
	}
}
