//go:build kube

package controllertest

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/tulle-net/tulle/pkg/cloud/aws/awstest"
	"github.com/tulle-net/tulle/pkg/controller/awscluster"
	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/test/kubetest"
)

const secretsPath = "/api/v1/namespaces/default/secrets"

// corePartRules are the further rights of the controller that does the part of Cluster API's core.
var corePartRules = []kubetest.Rule{
	{APIGroups: []string{"cluster.x-k8s.io"}, Resources: []string{"clusters", "clusters/status"}, Verbs: []string{"patch"}},
	{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get", "create", "update"}},
}

// clusterState is what a test reads of a Cluster.
type clusterState struct {
	Metadata struct{ UID string }
	Spec     struct {
		Endpoint struct {
			Host string
			Port int
		} `json:"controlPlaneEndpoint"`
	}
	Status struct {
		Phase          string
		Initialization struct {
			Provisioned  bool `json:"infrastructureProvisioned"`
			ControlPlane bool `json:"controlPlaneInitialized"`
		}
		FailureDomains domains
		Conditions     []struct{ Type, Status, Reason, Message string }
	}
}

// is returns an error unless a condition of a Cluster has a status.
func (c clusterState) is(condition, status string) error {
	for _, each := range c.Status.Conditions {
		if each.Type == condition && each.Status == status {
			return nil
		}
	}
	return fmt.Errorf("%s is not %s: %+v", condition, status, c.Status.Conditions)
}

// state reads a Cluster.
func (l *networkLab) state(name string) (c clusterState, err error) {
	text, err := l.get(clustersPath + "/" + name)
	if err == nil {
		err = json.Unmarshal([]byte(text), &c)
	}
	return c, err
}

// kubeconfig is what a test reads of a kubeconfig.
type kubeconfig struct {
	Clusters []struct {
		Cluster struct {
			Server string
			CA     string `json:"certificate-authority-data"`
		}
	}
	Users []struct {
		User struct {
			Cert string `json:"client-certificate-data"`
			Key  string `json:"client-key-data"`
		}
	}
}

// namespaces lists the namespaces of the API server of a kubeconfig, as its user.
func (k kubeconfig) namespaces() error {
	if len(k.Clusters) != 1 || len(k.Users) != 1 {
		return fmt.Errorf("%d clusters, %d users", len(k.Clusters), len(k.Users))
	}
	var parts [3][]byte
	for i, text := range []string{k.Clusters[0].Cluster.CA, k.Users[0].User.Cert, k.Users[0].User.Key} {
		part, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return err
		}
		parts[i] = part
	}
	pair, err := tls.X509KeyPair(parts[1], parts[2])
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(parts[0])
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}}}
	defer transport.CloseIdleConnections()
	answer, err := (&http.Client{Transport: transport}).Get(k.Clusters[0].Cluster.Server + "/api/v1/namespaces")
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if text, _ := io.ReadAll(answer.Body); answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%d %s", answer.StatusCode, text)
	}
	return nil
}

// TestClusterWithoutCore follows a Cluster where no core of Cluster API runs: owner, endpoint,
// failure domains, infrastructure, the kubeconfig, with which its user administers the cluster, and
// the control plane. The API server of the test is the cluster's own, too.
func TestClusterWithoutCore(t *testing.T) {
	t.Parallel()
	l := newNetworkLab(t)
	l.Allow("network-controller", slices.Concat(networkRules, corePartRules)...)
	server, err := url.Parse(l.URL)
	if err != nil {
		t.Fatal(err)
	}
	address, err := netip.ParseAddrPort(server.Host)
	if err != nil {
		t.Fatal(err)
	}
	l.Do(http.MethodPost, clustersPath, map[string]any{
		"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": map[string]any{"name": "prod"},
		"spec": map[string]any{"infrastructureRef": map[string]any{"apiGroup": awscluster.Group, "kind": awscluster.Kind, "name": "prod"}},
	}, nil)
	l.Do(http.MethodPost, awsClustersPath, map[string]any{
		"apiVersion": awscluster.Group + "/v1beta2", "kind": awscluster.Kind, "metadata": map[string]any{"name": "prod"},
		"spec": map[string]any{
			"region": awstest.Region, "network": map[string]any{"vpc": map[string]any{"cidrBlock": "10.0.0.0/16", "availabilityZoneUsageLimit": 2}},
			"controlPlaneLoadBalancer": map[string]any{"loadBalancerType": "disabled"},
			"controlPlaneEndpoint":     map[string]any{"host": address.Addr().String(), "port": address.Port()},
		},
	}, nil)
	// What makes the control plane makes the CA.
	ca, err := os.ReadFile(l.CAFile())
	if err != nil {
		t.Fatal(err)
	}
	l.Do(http.MethodPost, secretsPath, map[string]any{
		"metadata": map[string]any{"name": "prod-ca"}, "type": "kubernetes.io/tls", "stringData": map[string]string{"tls.crt": string(ca), "tls.key": string(l.CAKey())},
	}, nil)
	p := l.run("--leader-elect=false", "--controllers=awscluster,cluster")
	var c clusterState
	kerneltest.Eventually(t, 2*patience, func() (err error) {
		if c, err = l.state("prod"); err != nil {
			return err
		}
		if i := c.Status.Initialization; !i.Provisioned || !i.ControlPlane || c.Status.Phase != "Provisioned" || len(c.Status.FailureDomains) != 2 {
			return fmt.Errorf("%+v", c)
		}
		return errors.Join(c.is("InfrastructureReady", "True"), c.is("ControlPlaneInitialized", "True"))
	})
	if c.Spec.Endpoint.Host != address.Addr().String() || c.Spec.Endpoint.Port != int(address.Port()) {
		t.Errorf("the endpoint is %+v", c.Spec.Endpoint)
	}
	n, err := l.network("prod")
	if err != nil || n.Metadata.Labels["cluster.x-k8s.io/cluster-name"] != "prod" || !slices.ContainsFunc(n.Metadata.OwnerReferences, func(o owner) bool { return o.UID == c.Metadata.UID }) {
		t.Errorf("%v %+v", err, n.Metadata)
	}

	var secret struct {
		Type     string
		Metadata struct{ OwnerReferences []owner }
		Data     map[string][]byte
	}
	l.Do(http.MethodGet, secretsPath+"/prod-kubeconfig", nil, &secret)
	var k kubeconfig
	if err := yaml.Unmarshal(secret.Data["value"], &k); err != nil {
		t.Fatal("the kubeconfig cannot be read") // it has a key
	}
	if secret.Type != "cluster.x-k8s.io/secret" || !slices.ContainsFunc(secret.Metadata.OwnerReferences, func(o owner) bool { return o.UID == c.Metadata.UID }) {
		t.Errorf("the Secret has the type %s and the owners %+v", secret.Type, secret.Metadata.OwnerReferences)
	}
	if err := k.namespaces(); err != nil {
		t.Errorf("the user of the kubeconfig: %v", err)
	}
	if said := p.Said(); strings.Contains(said, "forbidden") || strings.Contains(said, "PRIVATE KEY") {
		t.Errorf("it lacks a permission, or shows a secret:\n%s", said)
	}

	// The network goes with its AWSCluster, which the garbage collector of a control plane deletes.
	l.Do(http.MethodDelete, awsClustersPath+"/prod", nil, nil)
	l.gone("prod")
	stop(t, p)
}
