//go:build kube

package controllertest

import (
	"fmt"
	"sync"

	"github.com/tulle-net/tulle/pkg/kube"
)

// bare makes the two PATCHes of each Node that initialise it, with patchers Nodes in flight. No
// instance is looked up and nothing is planned: this is what the API server can do.
func (l *lab) bare(homes []home) {
	l.t.Helper()
	client, err := kube.NewClient(kube.Options{Kubeconfig: l.Admin(), Name: "bare"})
	if err != nil {
		l.t.Fatal(err)
	}
	defer client.Close()
	work := make(chan int)
	var workers sync.WaitGroup
	for range patchers {
		workers.Go(func() {
			for i := range work {
				if err := l.initialise(client, i, homes[i]); err != nil {
					l.t.Errorf("%s: %v", homes[i].name, err)
				}
			}
		})
	}
	for i := range homes {
		work <- i
	}
	close(work)
	workers.Wait()
	if l.t.Failed() {
		l.t.FailNow()
	}
}

// initialise makes the two PATCHes of the i-th Node.
func (l *lab) initialise(client *kube.Client, i int, at home) error {
	type address struct {
		Type    string `json:"type"`
		Address string `json:"address"`
	}
	status := map[string]any{"addresses": []any{
		map[string]string{"$patch": "replace"}, address{"InternalIP", fmt.Sprintf("172.31.%d.%d", i>>8, i&255)}, address{"ExternalIP", fmt.Sprintf("3.64.%d.%d", i>>8, i&255)},
		address{"InternalDNS", at.name}, address{"Hostname", at.name}, address{"ExternalDNS", at.name},
	}}
	labels := make(map[string]string)
	for _, fact := range [][3]string{
		{"beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type", "m5.large"},
		{"failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone", at.zone},
		{"failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region", "eu-central-1"},
	} {
		labels[fact[0]], labels[fact[1]] = fact[2], fact[2]
	}
	labels["topology.k8s.aws/zone-id"] = "euc1-az1"
	ctx, path := l.t.Context(), kube.Path(kube.Nodes, at.name)
	if _, err := client.Merge(ctx, path+"/status", kube.Merge{Kind: kube.StrategicMergePatch, Status: status}); err != nil {
		return err
	}
	_, err := client.Merge(ctx, path, kube.Merge{
		Kind: kube.StrategicMergePatch, Metadata: map[string]any{"labels": labels},
		Spec: map[string]any{"providerID": "aws:///" + at.zone + "/" + at.id, "taints": []kube.TaintSpec{}},
	})
	return err
}
