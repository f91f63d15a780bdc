// Package dockertest runs real Docker daemons on the hosts of a clustertest.Cluster,
// each with a containerd, containers and images of its own, apart from the machine.
//
//	d := dockertest.New(t, host, dockertest.ControlGroup(t))
//	d.Start("--bip=10.5.34.1/24")
//	d.Run(nil, "run", "--detach", "image")
//
// A method that fails fails the test. All ends with the test.
package dockertest
