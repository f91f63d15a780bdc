// Package kubetest runs real Kubernetes control planes for tests, on loopback or in a
// network namespace. Each is three processes: an etcd, a kube-apiserver with RBAC and
// service accounts, and a kube-controller-manager that assigns podCIDRs to Nodes.
//
// The programs are built from the module in server. That takes about eight minutes on
// two cores, once: the user's cache keeps them. The etcd is the test binary itself, so
// a package that uses this calls etcdtest.Main in its TestMain. Tests that need a control plane have the build tag kube.
//
//	c := kubetest.Start(t, kubetest.Options{ClusterCIDRs: []string{"10.5.0.0/16"}})
//	c.URL                       // of the API server
//	c.Client()                  // an admin's, wherever the server is
//	c.Do("POST", path, object)  // as the admin
//	c.ServiceAccount("kube-system", "tulle", rules...) // path of a kubeconfig
//	c.Allow("tulle", rules...)  // another role; without rules, no rights
//	token := c.Token("kube-system", "tulle")
//	token.Revoke()              // the server no longer accepts it
//	c.Kill(); c.Restart()       // the API server
//	c.Freeze(); c.Thaw()        // it accepts connections, and never answers
//	p := c.Proxy()              // between it and clients that use p.URL
//	p.Answer(f); p.Delay(d); p.Reset()
//	c.Manager(kubeconfig, flags...) // a controller manager; without ClusterCIDRs there is none
//	c.Register(nil, nodes...)       // creates many Nodes at once, as kubelets do
//
// These options put it where daemons on the hosts of pkg/test/clustertest reach it:
//
//	kubetest.Options{Namespace: cluster.EtcdHost().NS.Name, Address: clustertest.EtcdAddrs(1)[0]}
//
// A method that fails fails the test. Everything ends with the test.
package kubetest
