// Package kubetest runs real Kubernetes control planes for tests: an etcd, a
// kube-apiserver with RBAC and service accounts, and a kube-controller-manager
// that gives Nodes their podCIDRs, as processes of their own, on loopback or in a
// network namespace.
//
// The programs are built from the module in server, which takes about eight
// minutes on two cores, once: they are kept in the user's cache. The etcd is the
// test binary itself, so a package that uses this calls etcdtest.Main in its
// TestMain. Tests that need a control plane have the build tag kube.
//
//	c := kubetest.Start(t, kubetest.Options{ClusterCIDRs: []string{"10.5.0.0/16"}})
//	c.URL                       // of the API server
//	c.Client()                  // an admin's, wherever the server is
//	c.Do("POST", path, object)  // as the admin
//	c.ServiceAccount("kube-system", "tulle", rules...) // path of a kubeconfig
//	c.Allow("tulle", rules...)  // the role is another; without rules none
//	token := c.Token("kube-system", "tulle")
//	token.Revoke()              // the server believes it no longer
//	c.Kill(); c.Restart()       // the API server
//	c.Freeze(); c.Thaw()        // it takes connections, and never answers
//	p := c.Proxy()              // between it and clients that use p.URL
//	p.Answer(f); p.Delay(d); p.Reset()
//
// One that daemons on the hosts of pkg/test/clustertest reach by their network:
//
//	kubetest.Options{Namespace: cluster.EtcdHost().NS.Name, Address: clustertest.EtcdAddrs(1)[0]}
//
// A method that fails fails the test. All ends with the test.
package kubetest
