//go:build kube && capi

package controllertest

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"testing"

	"github.com/tulle-net/tulle/pkg/cloud/aws/awstest"
	"github.com/tulle-net/tulle/pkg/controller/awscluster"
	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/test/sourcetest"
)

// core runs Cluster API's core with all its controllers.
func (l *networkLab) core(program string) *kerneltest.Process {
	l.t.Helper()
	p := kerneltest.Launch(l.t, "", []string{"KUBECONFIG=" + l.Admin()},
		program, "--webhook-cert-dir="+l.webhookFiles(), "--webhook-port="+unusedPort(l.t), "--health-addr=127.0.0.1:0", "--diagnostics-address=127.0.0.1:0", "--insecure-diagnostics",
		"--skip-crd-migration-phases=StorageVersionMigration,CleanupManagedFields")
	l.ends(p, "Cluster API's core")
	return p
}

// TestCoreOfClusterAPI lets Cluster API's core take a Cluster to infrastructure that is ready, and
// delete it. The core creates the owner of the AWSCluster, and reads its status by the contract
// that the labels of its CustomResourceDefinition name. One of the two definitions is that of
// Cluster API's AWS provider.
func TestCoreOfClusterAPI(t *testing.T) {
	t.Parallel()
	core, err := sourcetest.CAPI.Find()
	if err != nil {
		t.Fatal(err)
	}
	definitions, err := sourcetest.CAPI.Definitions()
	if err != nil {
		t.Fatal(err)
	}
	provider, err := sourcetest.CAPA.Definitions()
	if err != nil {
		t.Fatal(err)
	}
	if core == "" || provider == "" {
		t.Fatal("this test needs Cluster API's core, and the definitions of its AWS provider: make test-capi " + sourcetest.CAPI.Hint() + ", and " + sourcetest.CAPA.Hint())
	}
	for name, define := range map[string]func(*networkLab){
		"v1beta1 of the provider": func(l *networkLab) {
			l.defineAll(provider, awscluster.Group+"_awsclusters", providerLabels)
		},
		"v1beta2": func(l *networkLab) {
			l.define(awscluster.Group, awscluster.Kind, "awsclusters", map[string]string{"cluster.x-k8s.io/v1beta2": "v1beta2"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newNetworkLabWith(t, func(l *networkLab) {
				l.defineAll(definitions, "", map[string]string{"cluster.x-k8s.io/v1beta1": "v1beta1", "cluster.x-k8s.io/v1beta2": "v1beta2"})
				define(l)
			})
			l.core(core)
			p := l.run("--leader-elect=false")
			l.takesACluster()
			stop(t, p)
		})
	}
}

// takesACluster creates a Cluster, waits until its infrastructure is ready, pauses and deletes it.
func (l *networkLab) takesACluster() {
	l.t.Helper()
	l.Do(http.MethodPost, clustersPath, map[string]any{
		"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": map[string]any{"name": "prod"},
		"spec": map[string]any{"infrastructureRef": map[string]any{"apiGroup": awscluster.Group, "kind": awscluster.Kind, "name": "prod"}},
	}, nil)
	l.Do(http.MethodPost, awsClustersPath, map[string]any{
		"apiVersion": awscluster.Group + "/v1beta2", "kind": awscluster.Kind, "metadata": map[string]any{"name": "prod"},
		"spec": map[string]any{"region": awstest.Region, "network": map[string]any{"vpc": map[string]any{"cidrBlock": "10.0.0.0/16"}}},
	}, nil)
	n := l.provisioned("prod")
	var c clusterState
	kerneltest.Eventually(l.t, 2*patience, func() (err error) {
		if c, err = l.state("prod"); err != nil {
			return err
		}
		if !c.Status.Initialization.Provisioned || c.Spec.Endpoint.Host == "" || len(c.Status.FailureDomains) == 0 {
			return fmt.Errorf("the core has not taken the infrastructure: %+v", c)
		}
		return c.is("InfrastructureReady", "True")
	})
	if c.Spec.Endpoint.Host != n.Spec.Endpoint.Host || c.Spec.Endpoint.Port != 6443 {
		l.t.Errorf("the Cluster's endpoint is %+v, and the AWSCluster's %+v", c.Spec.Endpoint, n.Spec.Endpoint)
	}
	zones := make(map[string]bool)
	for _, d := range c.Status.FailureDomains {
		zones[d.Name] = d.ControlPlane
	}
	if want := map[string]bool{awstest.Region + "a": true, awstest.Region + "b": true, awstest.Region + "c": true}; !maps.Equal(zones, want) {
		l.t.Errorf("the Cluster's failure domains are %v, want %v", zones, want)
	}
	if n.Metadata.Labels["cluster.x-k8s.io/cluster-name"] != "prod" || !slices.ContainsFunc(n.Metadata.OwnerReferences, func(o owner) bool { return o.UID == c.Metadata.UID }) {
		l.t.Errorf("the core owns the AWSCluster: %+v", n.Metadata)
	}

	l.Do(http.MethodPatch, clustersPath+"/prod", map[string]any{"spec": map[string]any{"paused": true}}, nil)
	kerneltest.Eventually(l.t, patience, func() error {
		n, err := l.network("prod")
		return errors.Join(err, n.is("Paused", "True"))
	})
	l.Do(http.MethodPatch, clustersPath+"/prod", map[string]any{"spec": map[string]any{"paused": nil}}, nil)
	l.Do(http.MethodDelete, clustersPath+"/prod", nil, nil)
	l.gone("prod")
	kerneltest.Eventually(l.t, patience, func() error {
		if c, err := l.state("prod"); err == nil {
			return fmt.Errorf("the Cluster is still there: %+v", c.Status.Conditions)
		}
		return nil
	})
}
