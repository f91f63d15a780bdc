package kubetest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/test/certtest"
	"github.com/tulle-net/tulle/pkg/test/etcdtest"
)

// Port is the API server's, on an address of its own.
const Port = 6443

// services is the network of services' addresses, and serviceAddress the API server's
// there.
const services = "172.31.0.0/24"

var serviceAddress = netip.MustParseAddr("172.31.0.1")

// patience is the time limit of a wait before the test fails.
const patience = 2 * time.Minute

// Options are the features and the location of a cluster.
type Options struct {
	// ClusterCIDRs are the networks from which kube-controller-manager assigns podCIDRs
	// to Nodes, one per family. Without any, it assigns none.
	ClusterCIDRs []string
	// MaskIPv4 and MaskIPv6 are the lengths of podCIDRs; zero means 24 and 64.
	MaskIPv4, MaskIPv6 int
	// Flags are additional flags of the API server.
	Flags []string
	// Namespace is the name of the network namespace to run in. If it is empty, the
	// servers run in that of this process. A namespace needs an Address.
	Namespace string
	// Address is the address at which all servers listen. The zero Addr means an
	// address of the loopback.
	Address netip.Addr
	// EtcdProgram is the path of another etcd, for tests against an older version.
	EtcdProgram string
	// Nodes adds what nodes need to run pods: all controllers, a scheduler, and the
	// service kubernetes. Node IPAM runs only with ClusterCIDRs. It needs an Address.
	Nodes bool
	// ClientCA makes the API server accept client certificates of the authority that signs its
	// own.
	ClientCA bool
}

// Cluster is one control plane.
type Cluster struct {
	// URL is the URL of the API server.
	URL string
	// Etcd is the cluster's etcd.
	Etcd *etcdtest.Cluster

	t       testing.TB
	options Options
	dir     string
	files   certtest.Files
	signer  *certtest.Authority
	// accounts is the path of the key that signs the tokens of service accounts.
	accounts string
	server   *kerneltest.Process
	client   *http.Client
	command  []string
	proxies  uint16 // number of controller managers
}

// Start runs a control plane, and waits until it is ready.
func Start(t testing.TB, o Options) *Cluster {
	t.Helper()
	bin := ServerPrograms(t)
	etcd := etcdtest.Options{Namespace: o.Namespace, Program: o.EtcdProgram}
	if o.Address.IsValid() {
		etcd.Addresses = []netip.Addr{o.Address}
	} else {
		o.Address = loopback(t)
	}
	c := &Cluster{
		t: t, options: o, dir: t.TempDir(), files: certtest.NewFiles(t), signer: certtest.New(t), Etcd: etcdtest.Start(t, etcd),
		URL: "https://" + netip.AddrPortFrom(o.Address, Port).String(),
	}
	c.signer.Write(c.files, o.Address, 24*time.Hour, serviceAddress)
	c.accounts = c.serviceAccountKey()
	tokens := c.write("tokens.csv", adminToken+`,admin,admin,"system:masters"`+"\n")
	flags := []string{"--endpoint-reconciler-type=none"} // the service kubernetes cannot have a loopback address
	if o.Nodes {
		flags = []string{"--endpoint-reconciler-type=lease", "--kubelet-preferred-address-types=InternalIP"}
	}
	if o.ClientCA {
		flags = append(flags, "--client-ca-file="+c.files.CA)
	}
	c.command = append([]string{
		filepath.Join(bin, apiServer),
		"--etcd-servers=" + strings.Join(c.Etcd.Endpoints(), ","),
		"--bind-address=" + o.Address.String(), fmt.Sprintf("--secure-port=%d", Port),
		"--advertise-address=" + o.Address.String(),
		"--tls-cert-file=" + c.files.Cert, "--tls-private-key-file=" + c.files.Key, "--cert-dir=" + c.dir,
		"--token-auth-file=" + tokens, "--authorization-mode=RBAC",
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file=" + c.accounts, "--service-account-signing-key-file=" + c.accounts,
		"--service-cluster-ip-range=" + services, "--allow-privileged=true",
		"--profiling=false", "--v=0",
	}, flags...)
	c.command = append(c.command, o.Flags...)
	config := &rest.Config{Host: c.URL, BearerToken: adminToken, TLSClientConfig: rest.TLSClientConfig{CAFile: c.files.CA}}
	if o.Namespace != "" {
		config.Dial = kerneltest.Dialer(o.Namespace)
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	c.client = client
	t.Cleanup(func() {
		c.Kill()
		client.CloseIdleConnections()
	})
	c.Restart()
	switch {
	case o.Nodes:
		flags := []string{"--controllers=*", "--service-account-private-key-file=" + c.accounts, "--root-ca-file=" + c.files.CA}
		if len(o.ClusterCIDRs) == 0 {
			flags = append(flags, "--controllers=*,-node-ipam-controller", "--allocate-node-cidrs=false")
		}
		c.manager(flags...)
		c.help(filepath.Join(NodePrograms(t), scheduler), "--kubeconfig="+c.Admin(), "--leader-elect=false", "--secure-port=0")
	case len(o.ClusterCIDRs) > 0:
		c.manager()
	}
	return c
}

// manager runs a controller manager that assigns podCIDRs as the options require.
func (c *Cluster) manager(flags ...string) {
	o := c.options
	if len(o.ClusterCIDRs) > 0 {
		flags = append(flags, "--cluster-cidr="+strings.Join(o.ClusterCIDRs, ","))
	}
	for _, cidr := range o.ClusterCIDRs {
		if strings.Contains(cidr, ":") {
			flags = append(flags, fmt.Sprintf("--node-cidr-mask-size-ipv6=%d", cmp.Or(o.MaskIPv6, 64)))
		} else {
			flags = append(flags, fmt.Sprintf("--node-cidr-mask-size-ipv4=%d", cmp.Or(o.MaskIPv4, 24)))
		}
	}
	c.Manager(c.Admin(), flags...)
}

// Manager runs a kube-controller-manager as the owner of a kubeconfig. It assigns
// podCIDRs to Nodes as the flags require, and runs no other controller unless the flags
// name it.
func (c *Cluster) Manager(kubeconfig string, flags ...string) *kerneltest.Process {
	c.t.Helper()
	return c.help(append([]string{
		filepath.Join(ServerPrograms(c.t), controllerManager), "--kubeconfig=" + kubeconfig, "--leader-elect=false", "--secure-port=0",
		"--controllers=node-ipam-controller", "--allocate-node-cidrs=true",
	}, flags...)...)
}

// help runs a program in addition to the servers until the test ends.
func (c *Cluster) help(command ...string) *kerneltest.Process {
	c.t.Helper()
	p := kerneltest.Launch(c.t, c.options.Namespace, nil, command...)
	c.t.Cleanup(func() { p.End(syscall.SIGKILL) })
	return p
}

// Kill ends the API server as a loss of power would.
func (c *Cluster) Kill() {
	if c.server != nil {
		c.server.End(syscall.SIGKILL)
		c.server = nil
	}
}

// Restart runs the API server again, on the same address, and waits until it is
// ready.
func (c *Cluster) Restart() {
	c.t.Helper()
	c.Kill()
	c.client.CloseIdleConnections() // closes connections to the killed server
	c.server = kerneltest.Launch(c.t, c.options.Namespace, nil, c.command...)
	c.Ready()
}

// Ready waits until the API server reports that it is ready.
func (c *Cluster) Ready() {
	c.t.Helper()
	c.await("the API server is ready", func() error {
		r, err := c.client.Get(c.URL + "/readyz")
		if err != nil {
			return err
		}
		defer r.Body.Close()
		if text, _ := io.ReadAll(r.Body); r.StatusCode != http.StatusOK {
			return fmt.Errorf("%d: %s", r.StatusCode, text)
		}
		return nil
	})
}

// Freeze stops the API server until Thaw. Its kernel still accepts connections.
func (c *Cluster) Freeze() {
	c.t.Helper()
	c.server.Freeze()
}

// Thaw undoes Freeze.
func (c *Cluster) Thaw() {
	c.t.Helper()
	c.server.Thaw()
}

// Spent returns the processor time that the API server has used.
func (c *Cluster) Spent() time.Duration {
	c.t.Helper()
	return c.server.Spent()
}

// PID returns the process ID of the API server.
func (c *Cluster) PID() int { return c.server.PID() }

// await waits until f returns no error, and fails the test after patience. what
// completes the sentence "waiting until".
func (c *Cluster) await(what string, f func() error) {
	c.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); ; <-tick.C {
		err := f()
		if err == nil {
			return
		}
		if c.server.Over() || time.Now().After(deadline) {
			c.t.Fatalf("timed out waiting until %s: %v\n%s", what, err, c.server.Said())
		}
	}
}

// Client returns an admin's client.
func (c *Cluster) Client() *http.Client { return c.client }

// Do sends an admin's request, which must succeed. It sends an object as JSON, and
// decodes the answer into another, if there is one.
func (c *Cluster) Do(method, path string, object any, answer any) {
	c.t.Helper()
	if err := c.Try(method, path, object, answer); err != nil {
		c.t.Fatal(err)
	}
}

// Try does what Do does, for a request that may fail.
func (c *Cluster) Try(method, path string, object any, answer any) error {
	text, err := json.Marshal(object)
	if err != nil {
		return err
	}
	r, err := http.NewRequest(method, c.URL+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		r.Header.Set("Content-Type", "application/merge-patch+json")
	}
	a, err := c.client.Do(r)
	if err != nil {
		return err
	}
	defer a.Body.Close()
	said, err := io.ReadAll(a.Body)
	if err != nil || a.StatusCode >= 300 {
		return fmt.Errorf("%s %s: %d %s %v", method, path, a.StatusCode, said, err)
	}
	if answer != nil {
		return json.Unmarshal(said, answer)
	}
	return nil
}

// loopback returns an address at which no server listens.
func loopback(t testing.TB) netip.Addr {
	t.Helper()
	for range 100 {
		a := netip.AddrFrom4([4]byte{127, byte(128 + mathrand.N(64)), byte(mathrand.N(256)), byte(1 + mathrand.N(254))})
		l, err := net.Listen("tcp", netip.AddrPortFrom(a, Port).String())
		if err == nil {
			l.Close()
			return a
		}
	}
	t.Fatal("no loopback address is free")
	panic("unreachable")
}
