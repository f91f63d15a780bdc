package e2e

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/test/certtest"
	"github.com/tulle-net/tulle/pkg/test/clustertest"
	"github.com/tulle-net/tulle/subnet"
)

// TestEmbedded has a network with no etcd but the first daemon's: the others
// join it by TLS, and its end is no more than any etcd's.
func TestEmbedded(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, clustertest.Options{Hosts: 3})
	w := &world{Cluster: c, t: t, daemons: make(map[*clustertest.Host]*clustertest.Daemon)}
	first := w.Hosts[0]
	files := certtest.NewFiles(t)
	certtest.New(t).Write(files, first.Addr[subnet.IPv4], time.Hour)
	endpoint := fmt.Sprintf("https://%s:2379", first.Addr[subnet.IPv4])
	certificates := []string{"--etcd-cafile=" + files.CA, "--etcd-certfile=" + files.Cert, "--etcd-keyfile=" + files.Key}
	state := map[*clustertest.Host]string{first: t.TempDir()} // the hosts' disks are too small for an etcd
	begin := func(h *clustertest.Host, network string) {
		flags := append([]string{"--node-id=" + h.Name, "--subnet-file=" + h.SubnetFile, "--state-dir=" + cmp.Or(state[h], h.StateDir)}, certificates...)
		if h == first {
			flags = append(flags, "--etcd-embedded", "--etcd-listen="+endpoint, "--network="+network)
		} else {
			flags = append(flags, "--etcd-endpoints="+endpoint)
		}
		w.daemons[h] = h.Start(tulled, flags...)
	}
	// The first comes last: the others wait for it.
	for _, h := range []*clustertest.Host{w.Hosts[2], w.Hosts[1], first} {
		begin(h, "10.5.0.0/16,fd00:5::/48")
	}
	for _, h := range w.Hosts {
		h.AddPod()
	}
	w.Matrix()
	keys := map[string]string{}
	for _, h := range w.Hosts {
		keys[h.Name] = w.key(h)
	}
	list := first.NS.Command(append([]string{tulled.Argv[0], "leases", "--etcd-endpoints=" + endpoint}, certificates...)...)
	out, err := list.CombinedOutput()
	if err != nil || strings.Count(string(out), " vxlan ") != len(w.Hosts) {
		t.Errorf("tulled leases: %v: %s", err, out)
	}

	pings := w.pings(w.Hosts[1], w.Hosts[2])
	w.daemons[first].Kill()
	w.daemons[w.Hosts[1]].WaitLog("Store operation failed")
	begin(first, "10.77.0.0/16") // a network is begun once
	w.daemons[first].WaitLog("Kernel in sync with all peers")
	w.daemons[w.Hosts[1]].WaitLog("Store operation recovered")
	pings.more(20)
	pings.wantLost(0)
	again := map[string]string{}
	for _, h := range w.Hosts {
		again[h.Name] = w.key(h)
	}
	if !maps.Equal(again, keys) {
		t.Errorf("the subnets were %v and are %v", keys, again)
	}
	if code := w.daemons[first].Stop(); code != 0 {
		t.Errorf("SIGTERM ended the daemon with %d", code)
	}
	if info, err := os.Stat(state[first] + "/etcd"); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("etcd's folder: %v, %v", info, err)
	}
}
