package kubetest

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/tulle-net/tulle/pkg/certtest"
	"github.com/tulle-net/tulle/pkg/etcdtest"
)

// Port is the API server's, on an address of its own.
const Port = 6443

// patience is how long something may take before the test fails.
const patience = time.Minute

// Options say what the cluster gives.
type Options struct {
	// ClusterCIDRs are what Nodes are given podCIDRs from, one a family; without
	// any they are given none.
	ClusterCIDRs []string
	// MaskIPv4 and MaskIPv6 are how long those are; 24 and 64 when zero.
	MaskIPv4, MaskIPv6 int
	// Flags are more of the API server's.
	Flags []string
}

// Cluster is one control plane.
type Cluster struct {
	// URL is the API server's.
	URL string
	// Etcd is what it stands on.
	Etcd *etcdtest.Cluster

	t       testing.TB
	dir     string
	files   certtest.Files
	server  *process
	client  *http.Client
	command []string
}

// adminToken is the admin's; nobody but tests reaches a server that knows it.
const adminToken = "admin-of-a-test"

// Start runs a control plane, and waits until it is ready.
func Start(t testing.TB, o Options) *Cluster {
	t.Helper()
	bin := programs(t)
	address := loopback(t)
	c := &Cluster{
		t: t, dir: t.TempDir(), files: certtest.NewFiles(t), Etcd: etcdtest.Start(t, etcdtest.Options{}),
		URL: "https://" + netip.AddrPortFrom(address, Port).String(),
	}
	certtest.New(t).Write(c.files, address, 24*time.Hour)
	key := c.serviceAccountKey()
	tokens := c.write("tokens.csv", adminToken+`,admin,admin,"system:masters"`+"\n")
	c.command = append([]string{
		filepath.Join(bin, apiServer),
		"--etcd-servers=" + strings.Join(c.Etcd.Endpoints(), ","),
		"--bind-address=" + address.String(), fmt.Sprintf("--secure-port=%d", Port),
		"--advertise-address=" + address.String(), "--endpoint-reconciler-type=none",
		"--tls-cert-file=" + c.files.Cert, "--tls-private-key-file=" + c.files.Key, "--cert-dir=" + c.dir,
		"--token-auth-file=" + tokens, "--authorization-mode=RBAC",
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file=" + key, "--service-account-signing-key-file=" + key,
		"--service-cluster-ip-range=172.31.0.0/24", "--allow-privileged=true",
		"--profiling=false", "--v=0",
	}, o.Flags...)
	client, err := rest.HTTPClientFor(&rest.Config{Host: c.URL, BearerToken: adminToken, TLSClientConfig: rest.TLSClientConfig{CAFile: c.files.CA}})
	if err != nil {
		t.Fatal(err)
	}
	c.client = client
	t.Cleanup(func() {
		c.Kill()
		client.CloseIdleConnections()
	})
	c.Restart()
	if len(o.ClusterCIDRs) > 0 {
		mask := func(given, usual int) int {
			if given == 0 {
				return usual
			}
			return given
		}
		command := []string{
			filepath.Join(bin, controllerManager), "--kubeconfig=" + c.Kubeconfig(adminToken), "--leader-elect=false", "--secure-port=0",
			"--controllers=node-ipam-controller", "--allocate-node-cidrs=true", "--cluster-cidr=" + strings.Join(o.ClusterCIDRs, ","),
		}
		for _, cidr := range o.ClusterCIDRs {
			if strings.Contains(cidr, ":") {
				command = append(command, fmt.Sprintf("--node-cidr-mask-size-ipv6=%d", mask(o.MaskIPv6, 64)))
			} else {
				command = append(command, fmt.Sprintf("--node-cidr-mask-size-ipv4=%d", mask(o.MaskIPv4, 24)))
			}
		}
		manager := launch(t, command)
		t.Cleanup(manager.kill)
	}
	return c
}

// Kill ends the API server as a host that loses power.
func (c *Cluster) Kill() {
	if c.server != nil {
		c.server.kill()
		c.server = nil
	}
}

// Restart runs the API server again, on the same address, and waits until it is
// ready.
func (c *Cluster) Restart() {
	c.t.Helper()
	c.Kill()
	c.server = launch(c.t, c.command)
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

// await waits until f has no error any more.
func (c *Cluster) await(what string, f func() error) {
	c.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); ; <-tick.C {
		err := f()
		if err == nil {
			return
		}
		if ended, said := c.server.over(); ended || time.Now().After(deadline) {
			c.t.Fatalf("waited in vain until %s: %v\n%s", what, err, said)
		}
	}
}

// Client is an admin's.
func (c *Cluster) Client() *http.Client { return c.client }

// Do makes an admin's request, which must succeed, with an object as JSON, and
// reads the answer into one, if there is one.
func (c *Cluster) Do(method, path string, object any, answer any) {
	c.t.Helper()
	text, err := json.Marshal(object)
	if err != nil {
		c.t.Fatal(err)
	}
	r, err := http.NewRequest(method, c.URL+path, bytes.NewReader(text))
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		r.Header.Set("Content-Type", "application/merge-patch+json")
	}
	a, err := c.client.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer a.Body.Close()
	said, err := io.ReadAll(a.Body)
	if err != nil || a.StatusCode >= 300 {
		c.t.Fatalf("%s %s: %d %s %v", method, path, a.StatusCode, said, err)
	}
	if answer != nil {
		if err := json.Unmarshal(said, answer); err != nil {
			c.t.Fatal(err)
		}
	}
}

// Rule is one of a role.
type Rule struct {
	APIGroups []string `json:"apiGroups"`
	Resources []string `json:"resources"`
	Verbs     []string `json:"verbs"`
}

// ServiceAccount makes a service account that may do what the rules allow, and no
// more, and returns the path of a kubeconfig with its token.
func (c *Cluster) ServiceAccount(namespace, name string, rules ...Rule) (kubeconfig string) {
	c.t.Helper()
	named := map[string]any{"name": name}
	const rbac = "/apis/rbac.authorization.k8s.io/v1/"
	accounts := "/api/v1/namespaces/" + namespace + "/serviceaccounts"
	// The API server makes its own namespaces a moment after it is ready.
	c.await("there is the namespace "+namespace, func() error {
		r, err := c.client.Get(c.URL + "/api/v1/namespaces/" + namespace)
		if err != nil {
			return err
		}
		r.Body.Close()
		if r.StatusCode != http.StatusOK {
			return fmt.Errorf("%d", r.StatusCode)
		}
		return nil
	})
	c.Do(http.MethodPost, accounts, map[string]any{"metadata": named}, nil)
	c.Do(http.MethodPost, rbac+"clusterroles", map[string]any{"metadata": named, "rules": rules}, nil)
	c.Do(http.MethodPost, rbac+"clusterrolebindings", map[string]any{
		"metadata": named, "roleRef": map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
		"subjects": []any{map[string]any{"kind": "ServiceAccount", "name": name, "namespace": namespace}},
	}, nil)
	var token struct{ Status struct{ Token string } }
	c.Do(http.MethodPost, accounts+"/"+name+"/token", map[string]any{"spec": map[string]any{"expirationSeconds": 86400}}, &token)
	return c.Kubeconfig(token.Status.Token)
}

// Kubeconfig writes one for a token, and returns its path.
func (c *Cluster) Kubeconfig(token string) string {
	c.t.Helper()
	text, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "test",
		"clusters": []any{map[string]any{"name": "test", "cluster": map[string]any{"server": c.URL, "certificate-authority": c.files.CA}}},
		"users":    []any{map[string]any{"name": "test", "user": map[string]any{"token": token}}},
		"contexts": []any{map[string]any{"name": "test", "context": map[string]any{"cluster": "test", "user": "test"}}},
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return c.write(fmt.Sprintf("kubeconfig-%d", mathrand.Uint64()), string(text))
}

func (c *Cluster) write(name, text string) string {
	c.t.Helper()
	path := filepath.Join(c.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		c.t.Fatal(err)
	}
	return path
}

// serviceAccountKey is what tokens of service accounts are signed with.
func (c *Cluster) serviceAccountKey() string {
	c.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		c.t.Fatal(err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		c.t.Fatal(err)
	}
	return c.write("accounts.pem", string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})))
}

// loopback is an address that nothing listens on.
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
