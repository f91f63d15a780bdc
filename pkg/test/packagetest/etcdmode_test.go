//go:build packages

package packagetest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/tulle-net/tulle/pkg/cloud/aws/awstest"
	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/test/clustertest"
	"github.com/tulle-net/tulle/subnet"
)

const (
	etcdModeCluster = "prod"
	dropIns         = "/etc/systemd/system/tulle-controller.service.d"
	examples        = "/usr/share/doc/tulle/examples/tulle-controller.service.d"
)

// etcdMode is machines whose units tulle-controller know hosts only from the etcd on
// the first machine, and the AWS account that they write routes to.
type etcdMode struct {
	t      *testing.T
	both   []*machine
	client *clientv3.Client
	aws    *awstest.Server
	table  string
	want   map[string]string // the targets of the routes that must exist
}

// controlFromEtcd configures the units as the package's examples do: with etcd's
// certificates, with an AWS key that only root can read, and without a kubeconfig. One
// replica leads. When it stops, the other takes over.
func controlFromEtcd(t *testing.T, both []*machine, outside *clustertest.Host) {
	t.Helper()
	e := &etcdMode{t: t, both: both, want: make(map[string]string)}
	if err := clustertest.Inside(outside.NS.Path, func() (err error) {
		e.aws, err = awstest.Start(outside.Addr[subnet.IPv4].String() + ":0")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.aws.Close)
	e.table = e.aws.AddTable(e.aws.Default().VPC, etcdModeTags())
	e.dial()
	for _, m := range both {
		e.configure(m)
		m.run("systemctl start tulle-controller") // and waits until it is ready
		m.limited()
	}
	leader, other := e.leader(nil)
	e.lend("10.5.251.0-24")
	e.routes()

	leader.run("systemctl stop tulle-controller")
	if is := leader.show("Result", "tulle-controller"); is != "success" {
		t.Errorf("%s: after its stop, tulle-controller has the result %s", leader.Name, is)
	}
	e.leader(leader)
	e.lend("10.5.252.0-24")
	e.routes()
	leader.run("systemctl start tulle-controller")
	if now, _ := e.leader(nil); now != other {
		t.Errorf("%s took the lead from %s, which runs", now.Name, other.Name)
	}
	for _, m := range both {
		m.run("rm -r " + dropIns)
	}
	e.client.Close() // the etcd restarts next
}

func etcdModeTags() map[string]string {
	return map[string]string{"kubernetes.io/cluster/" + etcdModeCluster: "owned"}
}

// configure writes the settings of a machine.
func (e *etcdMode) configure(m *machine) {
	e.t.Helper()
	m.run("systemctl stop tulle-controller")
	m.run("rm /etc/tulle/controller.kubeconfig")
	m.run("mv /etc/tulle/cert.pem /etc/tulle/host.pem") // tulled has already read them
	m.run("mv /etc/tulle/key.pem /etc/tulle/host.key")
	m.run("ln -s host.pem /etc/tulle/cert.pem")
	m.run("ln -s host.key /etc/tulle/key.pem")
	m.put("/etc/tulle/aws-credentials", fmt.Sprintf("[default]\naws_access_key_id = %s\naws_secret_access_key = %s\n", awstest.AccessKey, awstest.SecretKey))
	m.run("chmod 600 /etc/tulle/host.key /etc/tulle/aws-credentials")
	m.run("cp -r " + examples + " " + dropIns)
	m.put("/etc/default/tulle-controller", fmt.Sprintf("TULLE_CONTROLLER_ETCD_ENDPOINTS=https://%s:2379\nTULLE_CONTROLLER_CLOUD_PROVIDER=aws\nTULLE_CONTROLLER_CLUSTER_NAME=%s\n"+
		"AWS_REGION=%s\nAWS_ENDPOINT_URL=%s\nAWS_EC2_METADATA_DISABLED=true\nOPTIONS=\"--healthz-port=10265\"\n",
		e.both[0].Addr[subnet.IPv4], etcdModeCluster, awstest.Region, e.aws.URL))
	m.run("systemctl daemon-reload")
	m.run("systemd-analyze verify tulle-controller.service")
}

// dial opens a client of the etcd, with the machines' certificate.
func (e *etcdMode) dial() {
	e.t.Helper()
	one := e.both[0]
	cert, err := tls.X509KeyPair([]byte(one.run("cat /etc/tulle/cert.pem")), []byte(one.run("cat /etc/tulle/key.pem")))
	if err != nil {
		e.t.Fatal(err)
	}
	authorities := x509.NewCertPool()
	authorities.AppendCertsFromPEM([]byte(one.run("cat /etc/tulle/ca.pem")))
	e.client, err = clientv3.New(clientv3.Config{
		Endpoints: []string{fmt.Sprintf("https://%s:2379", one.Addr[subnet.IPv4])},
		TLS:       &tls.Config{RootCAs: authorities, Certificates: []tls.Certificate{cert}},
		DialOptions: []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return kerneltest.Dialer(one.NS.Name)(ctx, "tcp", address)
		})},
	})
	if err != nil {
		e.t.Fatal(err)
	}
}

// lend writes the lease of a host that needs a route.
func (e *etcdMode) lend(key string) {
	e.t.Helper()
	i := e.aws.Launch(awstest.Launch{Tags: etcdModeTags()})[0]
	ctx, cancel := context.WithTimeout(e.t.Context(), patience)
	defer cancel()
	if _, err := e.client.Put(ctx, "/coreos.com/network/subnets/"+key, fmt.Sprintf(`{"PublicIP": %q, "BackendType": "alloc"}`, i.Private)); err != nil {
		e.t.Fatal(err)
	}
	e.want[strings.ReplaceAll(key, "-", "/")] = i.Interface
}

// routes waits until the table has exactly the routes that the leases need.
func (e *etcdMode) routes() {
	e.t.Helper()
	kerneltest.Eventually(e.t, patience, func() error {
		got := make(map[string]string)
		for _, r := range e.aws.Routes(e.table) {
			if r.Instance != "" {
				got[r.Destination] = r.Target
			}
		}
		if !maps.Equal(got, e.want) {
			return fmt.Errorf("the table has %v, want %v; calls %v", got, e.want, e.aws.Counts())
		}
		return nil
	})
}

// leader waits until one replica leads and the other, unless it is the stopped one,
// stands by.
func (e *etcdMode) leader(stopped *machine) (leads, other *machine) {
	e.t.Helper()
	kerneltest.Eventually(e.t, patience, func() error {
		leads, other = nil, stopped
		said := make([]string, 0, len(e.both))
		for _, m := range e.both {
			text := m.show("StatusText", "tulle-controller")
			switch said = append(said, text); {
			case m == stopped:
			case strings.HasPrefix(text, "leading; "):
				leads = m
			case strings.HasPrefix(text, "standing by for "):
				other = m
			}
		}
		if leads == nil || other == nil {
			return fmt.Errorf("the replicas report %q", said)
		}
		return nil
	})
	return leads, other
}

// limited checks the unit's limits, and which of root's files it can read.
func (m *machine) limited() {
	m.t.Helper()
	pid := m.confinedController()
	has := strings.Fields(m.run("ls /run/credentials/tulle-controller.service"))
	if want := []string{"aws-credentials", "ca.pem", "host.key", "host.pem"}; !slices.Equal(has, want) {
		m.t.Errorf("%s: systemd shows the unit %v, want %v", m.Name, has, want)
	}
	// The key is not on a command line or in an environment variable.
	for _, file := range []string{"cmdline", "environ"} {
		if text := m.run("cat /proc/" + pid + "/" + file); strings.Contains(text, awstest.SecretKey) {
			m.t.Errorf("%s: %s of tulle-controller contains the key", m.Name, file)
		}
	}
}
