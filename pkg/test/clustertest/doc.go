// Package clustertest is a lab for tests of whole daemons: hosts in network
// namespaces on one switch, daemons that run on them as processes of their own, pods
// with pings between them, and faults.
//
//	c := clustertest.New(t, clustertest.Options{Hosts: 3})
//	for _, h := range c.Hosts {
//		h.Start(tulled, "--etcd-endpoints=http://198.18.255.1:2379")
//	}
//	for _, h := range c.Hosts {
//		h.AddPod() // waits for the daemon's env file
//	}
//	c.Matrix()
//	s := c.Ping(c.Hosts[0].Pods[0], c.Hosts[1].Pods[0], subnet.IPv4)
//	c.Hosts[2].Unplug()
//	...
//	if r := s.Stop(); r.Lost != 0 {
//		t.Error(r)
//	}
//
// # Hosts
//
// Host N has a namespace, 198.18.0.0/16 plus N and fd00:18:: plus N on eth0, and a
// default route through it. [Cluster.EtcdHost] is one for servers, at 198.18.255.1
// and on. A host's files are in its own directory, which is a disk of its own that
// can be filled.
//
// # Daemons
//
// A process that [Host.Start] runs sees its host's namespace, /sys and hostname, and
// the host's own /run. It sees a machine-id of its own if the machine has one. So it
// can run with default paths for /run, and the test finds its files in [Host.Dir].
// Its output is collected. A process that ends on its own, or that reports a data
// race, fails the test. A test that fails prints the end of each daemon's output.
//
// # Pods
//
// [Host.AddPod] does what the CNI plugin "bridge" would: cni0 with the address and
// MTU of the daemon's env file, and a namespace joined to it.
//
// # Pings
//
// A [Stream] is a steady row of echo requests that are counted one by one.
// [Cluster.Matrix] and [Cluster.Reach] wait until pods answer packets of full size
// that must not be fragmented.
//
// # Faults
//
// [Host.Cut], [Host.Unplug], [Host.BreakChecksums], [Host.Readdress],
// [Host.FillDisk], [Daemon.Freeze], [Daemon.Kill], [Daemon.JumpClock], [Daemon.Age].
//
// Methods fail the test themselves, so the test's goroutine must call them. Any
// goroutine may call the methods of [Stream] and the plain getters. All of it needs
// root, and is removed when the test ends.
package clustertest
