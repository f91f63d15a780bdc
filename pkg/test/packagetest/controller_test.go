//go:build packages

package packagetest

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/kube/apitest"
)

// controller runs the unit tulle-controller with an API server on the machine.
type controller struct {
	*machine
	server   *apitest.Server
	settings string // the file /etc/default/tulle-controller
	nodes    int    // number of Nodes
}

// control starts the unit, and checks its limits.
func (m *machine) control() *controller {
	m.t.Helper()
	c := &controller{machine: m, settings: "TULLE_CONTROLLER_ALLOCATE_NODE_CIDRS=true\nTULLE_CONTROLLER_CLUSTER_CIDR=10.64.0.0/16\nOPTIONS=\"--healthz-port=10265 -v=1\""}
	m.NS.Do(m.t, func() error {
		c.server = apitest.New(m.t)
		return nil
	})
	c.server.Gives = nil
	m.put("/etc/default/tulle-controller", c.settings)
	m.put("/etc/tulle/controller.kubeconfig", fmt.Sprintf(`{"current-context": "a", "contexts": [{"name": "a", "context": {"cluster": "a"}}], "clusters": [{"name": "a", "cluster": {"server": %q}}]}`, c.server.URL))
	m.run("chmod 600 /etc/tulle/controller.kubeconfig")
	m.run("systemctl enable --now tulle-controller") // and waits until it is ready
	m.confinedController()
	c.gives()
	return c
}

// confinedController checks the limits that systemd sets for the unit, and returns its
// process.
func (m *machine) confinedController() (pid string) {
	m.t.Helper()
	pid = m.show("MainPID", "tulle-controller")
	status := m.run("cat /proc/" + pid + "/status")
	for _, want := range []string{"CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"} {
		if !strings.Contains(status, want+"\n") {
			m.t.Errorf("%s: tulle-controller lacks %q:\n%s", m.Name, want, status)
		}
	}
	if regexp.MustCompile(`(?m)^Uid:.*\t0\b`).MatchString(status) {
		m.t.Errorf("%s: tulle-controller runs as root:\n%s", m.Name, status)
	}
	return pid
}

// gives creates a Node, and waits until it has its podCIDR.
func (c *controller) gives() {
	c.t.Helper()
	c.nodes++
	n := apitest.SmallNode(c.nodes)
	n.Spec.PodCIDR, n.Spec.PodCIDRs = "", nil
	n.Name = fmt.Sprintf("node-%d", c.nodes)
	c.server.Do(func() { c.server.Change("ADDED", n) })
	kerneltest.Eventually(c.t, patience, func() error {
		if is := c.server.Node(n.Name).Spec.PodCIDR; !strings.HasPrefix(is, "10.64.") {
			return fmt.Errorf("%s: the podCIDR of %s is %q", c.Name, n.Name, is)
		}
		return nil
	})
}

// upgraded checks that the unit runs the newer version after the upgrade.
func (c *controller) upgraded(version string) {
	c.t.Helper()
	if is := c.run("/proc/" + c.show("MainPID", "tulle-controller") + "/exe version"); is != version {
		c.t.Errorf("%s runs tulle-controller %s", c.Name, is)
	}
	if c.run("cat /etc/default/tulle-controller") != c.settings {
		c.t.Errorf("%s: the upgrade has changed the settings of tulle-controller", c.Name)
	}
	c.gives()
	c.run("systemctl stop tulle-controller")
	if is := c.show("Result", "tulle-controller"); is != "success" {
		c.t.Errorf("%s: after its stop, tulle-controller has the result %s", c.Name, is)
	}
	c.run("systemctl start tulle-controller")
}
