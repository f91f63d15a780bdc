//go:build cloud

package e2e

import (
	"net/netip"
	"os/exec"
	"strings"
	"testing"

	"github.com/tulle-net/tulle/pkg/test/clustertest"
	"github.com/tulle-net/tulle/subnet"
)

// etcdVPC is a VPC whose hosts tulle-controller knows from etcd alone.
type etcdVPC struct {
	*vpc
	controller func() string // the path of tulle-controller
	stopped    func()        // stops the controller
}

// newEtcdVPC returns three hosts whose daemons and pods run. All of them use one table.
func newEtcdVPC(t *testing.T, config string, families ...subnet.Family) *etcdVPC {
	t.Helper()
	v := &etcdVPC{controller: buildController(t)}
	v.vpc = newVPC(newWorld(t, 0, 1, config), 3, families...)
	for _, h := range v.hosts {
		v.start(h).WaitLog("Kernel in sync with all peers")
		h.AddPod()
	}
	for _, h := range v.hosts {
		v.assign(h, 0)
	}
	v.Matrix()
	return v
}

// control starts a tulle-controller in place of the running one.
func (v *etcdVPC) control() {
	v.t.Helper()
	if v.stopped != nil {
		v.stopped()
	}
	cmd := exec.Command(v.controller(), "--etcd-endpoints="+strings.Join(v.etcd.Endpoints(), ","), "--cloud-provider=aws", "--cluster-name="+cloudCluster, "--healthz-port=0")
	d := v.EtcdHost().Start(clustertest.Command{Argv: cmd.Args, Env: v.aws.Env()})
	v.stopped = func() { d.Stop() }
}

// circle returns pings from every host to the one before it.
func (v *etcdVPC) circle() (all []*streams) {
	for i, from := range v.hosts {
		all = append(all, v.pings(from, v.hosts[(i+len(v.hosts)-1)%len(v.hosts)]))
	}
	return all
}

// each calls f with every stream.
func each(all []*streams, f func(*streams)) {
	for _, s := range all {
		f(s)
	}
}

// subnetOf returns a host's subnet of a family.
func (v *etcdVPC) subnetOf(h *clustertest.Host, f subnet.Family) netip.Prefix {
	v.t.Helper()
	subnets, err := subnetsOf(h)
	if err != nil {
		v.t.Fatal(err)
	}
	return subnets[f]
}
