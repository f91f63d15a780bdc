// Package etcdtest runs real etcds as processes of their own, for tests that
// kill, freeze, stop and restart them, alone or as a cluster.
//
// The server is the test binary itself, so a package that uses it has
//
//	func TestMain(m *testing.M) {
//		etcdtest.Main()
//		os.Exit(m.Run())
//	}
//
// and a test then does with its servers what it wants:
//
//	c := etcdtest.Start(t, etcdtest.Options{Members: 3})
//	c.Endpoints()          // URLs, one for each member
//	c.Client(t)            // a client of all of them
//	l := c.Leader()        // *Member; waits for one
//	l.Kill()               // SIGKILL, like a loss of power
//	l.Restart()            // on the same data and addresses
//	c.Member(0).Freeze()   // SIGSTOP: accepts connections, never answers
//	c.Member(0).Thaw()     // SIGCONT
//	c.Member(1).Stop()     // SIGTERM, and waits for the end
//	b := c.Snapshot()      // kills all, copies their data, starts all
//	c.Restore(b)           // sets all back to a backup; may be called again
//	c.Wipe()               // the same with no data at all
//	c.DeleteAll("/coreos.com/network/subnets/")
//	c.Protect(prefix, map[string]string{"user": "password"})
//	c.Compact()            // forgets the history up to now
//
// A method that fails fails the test. Servers listen on loopback addresses of
// their own, or inside a network namespace (Options.Namespace) on given
// addresses, always on ClientPort. They end with their test, and with the test
// binary however that ends.
package etcdtest
