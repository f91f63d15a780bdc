//go:build kube

package kubernetes

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tulle-net/tulle/pkg/cloud/aws/awstest"
	"github.com/tulle-net/tulle/pkg/cloud/azure/azuretest"
	"github.com/tulle-net/tulle/pkg/cloud/gce/gcetest"
)

// site is a cloud with four machines and a place for routes.
type site struct {
	manifest []object
	env      []string // of tulle-controller, beside what the manifest has
	machines []machine
	// leads reports whether a podCIDR is routed to a machine.
	leads func(i int, podCIDR string) bool
	// remove removes a machine.
	remove func(i int)
}

// machine is what a machine's Node gets.
type machine struct {
	node, providerID, zone string
	noted                  string // what the ledger has of its route
}

func awsSite(t *testing.T) site {
	account := awstest.New(t)
	tags := map[string]string{"kubernetes.io/cluster/prod": "owned"}
	table := account.AddTable(account.Default().VPC, tags)
	instances := account.Launch(awstest.Launch{Count: 4, Tags: tags})
	s := site{
		manifest: onAWS(t, ""), env: account.Env(),
		leads: func(i int, podCIDR string) bool {
			return slices.ContainsFunc(account.Routes(table), func(r awstest.Route) bool { return r.Destination == podCIDR && r.Instance == instances[i].ID })
		},
		remove: func(i int) { account.Terminate(instances[i].ID) },
	}
	for _, at := range instances {
		s.machines = append(s.machines, machine{at.Name, "aws:///" + at.Zone + "/" + at.ID, at.Zone, table + " " + at.Interface})
	}
	return s
}

func azureSite(t *testing.T) site {
	f := azuretest.New(t)
	s := site{
		manifest: onCloud(t, "  cloudProvider: azure\n  cloudConfigSecret: azure\n"),
		env:      []string{"IDENTITY_ENDPOINT=" + f.URL + "/msi/token", "IDENTITY_HEADER=header", "TULLE_CONTROLLER_CLOUD_CONFIG=" + f.Config()},
	}
	var all []azuretest.Machine
	for i := range 4 {
		m := f.Add(azuretest.Machine{Name: fmt.Sprint("worker-", i), IPv4: fmt.Sprint("10.0.1.", i+4), Zone: "2"})
		all = append(all, m)
		s.machines = append(s.machines, machine{m.Name, m.ProviderID(), azuretest.Location + "-2", m.IPv4})
	}
	s.leads = func(i int, podCIDR string) bool {
		hops, _ := f.Routes()
		return hops[podCIDR] == all[i].IPv4 && f.Forwards(all[i])
	}
	s.remove = func(i int) { f.Remove(all[i]) }
	return s
}

func googleSite(t *testing.T) site {
	const zone = "europe-west1-b"
	f := gcetest.New(t)
	f.AddNetwork("default", "10.128.0.0/16")
	config := fmt.Sprintf("[global]\nproject-id = %s\nnetwork-name = default\napi-endpoint = %s\n", gcetest.Project, f.Endpoint())
	text, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "gce.conf")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	s := site{
		manifest: onCloud(t, "  cloudProvider: gce\n  clusterName: prod\n  cloudConfig: "+string(text)+"\n"),
		env:      []string{"GCE_METADATA_HOST=" + strings.TrimPrefix(f.URL, "http://"), "TULLE_CONTROLLER_CLOUD_CONFIG=" + file},
		leads: func(i int, podCIDR string) bool {
			return slices.Equal(f.RoutesTo(podCIDR), []string{fmt.Sprint("worker-", i)})
		},
		remove: func(i int) { f.Remove(zone, fmt.Sprint("worker-", i)) },
	}
	for i := range 4 {
		name := fmt.Sprint("worker-", i)
		f.Add(zone, name, "")
		s.machines = append(s.machines, machine{name, gcetest.ID(zone, name), zone, name})
	}
	return s
}

// TestControllerPodOfAzureAndGoogle checks that tulle-controller understands its variables
// for each choice of controllers, and what its pod has of the cloud and of the host.
func TestControllerPodOfAzureAndGoogle(t *testing.T) {
	program := controllerProgram(t)
	azure := azuretest.New(t).Config()
	gce := filepath.Join(t.TempDir(), "gce.conf")
	if err := os.WriteFile(gce, []byte("[global]\nproject-id = my-project-1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ cloud, values, file, controllers string }{
		{"azure", "", azure, "['*']"},
		{"azure", "", azure, "['*', -nodeipam]"},
		{"azure", "", azure, "[cloud-node, cloud-node-lifecycle]"},
		{"azure", "", azure, "[route]"},
		{"gce", "  clusterName: prod\n", gce, "['*']"},
		{"gce", "  clusterName: prod\n", gce, "[nodeipam, route]"},
		{"gce", "  clusterName: prod\n", gce, "['*', -route]"},
		{"gce", "  clusterName: prod\n  allocatorType: CloudAllocator\n", gce, "['*']"},
		{"gce", "  clusterName: prod\n  allocatorType: IPAMFromCluster\n", gce, "[nodeipam, cloud-node]"},
	} {
		what := c.cloud + " " + c.controllers
		all := onCloud(t, "  cloudProvider: "+c.cloud+"\n"+c.values+"  controllers: "+c.controllers+`
  cloudConfigSecret: settings
  podLabels: {azure.workload.identity/use: "true"}
`)
		template := find[deployment](t, all, "Deployment").Spec.Template
		if template.Metadata.Labels["azure.workload.identity/use"] != "true" || template.Metadata.Labels["app.kubernetes.io/name"] != "tulle-controller" {
			t.Errorf("%s: its labels are %q", what, template.Metadata.Labels)
		}
		pod := template.Spec
		var config []string
		for _, v := range pod.Volumes {
			if v.Name != "config" {
				continue
			}
			for _, from := range v.Projected.Sources {
				for _, item := range from.Secret.Items {
					config = append(config, fmt.Sprintf("%s %s %s %o %d", from.Secret.Name, item.Key, item.Path, v.Projected.DefaultMode, pod.SecurityContext.FSGroup))
				}
			}
		}
		if want := []string{"settings cloud.conf cloud.conf 440 65534"}; !slices.Equal(config, want) {
			t.Errorf("%s: the config is of %q, want %q", what, config, want)
		}
		var mounts []string
		for _, m := range pod.Containers[0].VolumeMounts {
			mounts = append(mounts, fmt.Sprint(m.MountPath, " ", m.ReadOnly))
		}
		if want := []string{"/var/run/secrets/kubernetes.io/serviceaccount true", "/etc/tulle true", "/etc/ssl/certs true"}; !slices.Equal(mounts, want) {
			t.Errorf("%s: %q are mounted, want %q", what, mounts, want)
		}
		one := pod.Containers[0]
		if path := one.variable("TULLE_CONTROLLER_CLOUD_CONFIG"); path != "/etc/tulle/cloud.conf" {
			t.Errorf("%s: the config is at %q", what, path)
		}
		run := exec.Command(program, append(one.Args, "--kubeconfig=/missing", "--cloud-config="+c.file)...)
		run.Env = one.environment()
		if out, err := run.CombinedOutput(); run.ProcessState.ExitCode() != 1 || !strings.Contains(string(out), "/missing") || strings.Contains(string(out), "no effect") {
			t.Errorf("%s: run with %q and %q: %v %s", what, one.Args, run.Env, err, out)
		}
	}
}
