package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tulle-net/tulle/pkg/cloud/azure/azuretest"
	"github.com/tulle-net/tulle/pkg/controller/route"
	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
)

// azureSite is a cluster on Azure.
type azureSite struct {
	cluster
	azure    *azuretest.Server
	config   string
	machines []azuretest.Machine
}

func newAzureSite(t *testing.T) *azureSite {
	s := &azureSite{cluster: newCluster(t), azure: azuretest.New(t)}
	s.Do(func() { s.Serves["api/v1/configmaps"] = "ConfigMap" })
	s.azure.Setenv(t)
	s.config = s.azure.Config()
	return s
}

func (s *azureSite) cidr(i int) string { return fmt.Sprintf("10.64.%d.0/24", i) }

// launch adds n Nodes with their machines. Each third one is an instance of a scale set.
func (s *azureSite) launch(n int, change func(*corev1.Node)) {
	for range n {
		i := len(s.machines)
		m := azuretest.Machine{Name: large(i).Name, IPv4: fmt.Sprintf("10.0.%d.%d", i/250, i%250+4), Zone: "2"}
		if i%3 == 2 {
			m.Set, m.Number, m.Forwards = "pool", i, true
		}
		s.machines = append(s.machines, s.azure.Add(m))
		node := large(i)
		node.Spec.ProviderID = m.ProviderID()
		node.Spec.PodCIDR = s.cidr(i)
		node.Spec.PodCIDRs = []string{node.Spec.PodCIDR}
		node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{Type: "NetworkUnavailable", Status: "True", Reason: "NoRouteCreated"})
		if change != nil {
			change(node)
		}
		s.Do(func() { s.Change("ADDED", node) })
	}
}

// routed returns why a Node is not routed, or does not know it.
func (s *azureSite) routed(i int) error {
	hops, _ := s.azure.Routes()
	if hops[s.cidr(i)] != s.machines[i].IPv4 {
		return fmt.Errorf("%s leads to %q", s.cidr(i), hops[s.cidr(i)])
	}
	if !s.azure.Forwards(s.machines[i]) {
		return fmt.Errorf("%s does not forward", s.machines[i].Name)
	}
	for _, c := range s.Node(large(i).Name).Status.Conditions {
		if c.Type == "NetworkUnavailable" && c.Status == "False" {
			return nil
		}
	}
	return fmt.Errorf("%s does not know its route", large(i).Name)
}

func (s *azureSite) await(n int) {
	s.t.Helper()
	kerneltest.Eventually(s.t, patience, func() error {
		for i := range n {
			if err := s.routed(i); err != nil {
				return err
			}
		}
		return nil
	})
}

// start runs the program for routes alone, with times that are too short for a flag.
func (s *azureSite) start() *running {
	s.t.Helper()
	settings := settingsOf(s.t, s.flags("--controllers="+route.Name, "--cloud-provider=azure", "--cloud-config="+s.config)...)
	settings.route.period, settings.route.grace = time.Second, time.Second
	p, err := settings.connect()
	if err != nil {
		s.t.Fatal(err)
	}
	return s.run(p)
}

// Fifty Nodes take a few writes of the table, and a foreign route survives all of them. A
// route goes when its Node is gone, and only then.
func TestNodesAreRoutedOnAzure(t *testing.T) {
	s := newAzureSite(t)
	s.azure.SetRoute("to-the-firewall", "0.0.0.0/0", "10.0.9.9")
	s.launch(50, nil)
	s.start()
	s.await(50)
	if n := len(s.azure.Calls("PUT", "/routetables/")); n > 10 {
		t.Errorf("50 routes took %d writes of the table", n)
	}
	hops, names := s.azure.Routes()
	if hops["0.0.0.0/0"] != "10.0.9.9" || names[s.cidr(7)] != large(7).Name+"____106470"+"24" {
		t.Errorf("%v, %v", hops, names[s.cidr(7)])
	}
	if o := s.azure.Resource(); o["tags"].(azuretest.Object)["owner"] != "network" || o["properties"].(azuretest.Object)["aNewProperty"] != "kept" {
		t.Errorf("the table lost what is not ours: %v", o)
	}
	s.azure.Remove(s.machines[7])
	gone := s.Node(large(7).Name)
	s.Do(func() { s.Change("DELETED", gone) })
	kerneltest.Eventually(t, patience, func() error {
		if hops, _ := s.azure.Routes(); hops[s.cidr(7)] != "" || len(hops) != 50 {
			return fmt.Errorf("%d routes, %s via %q", len(hops), s.cidr(7), hops[s.cidr(7)])
		}
		return nil
	})
}

// The routes that Azure's own controller wrote are taken over as they are.
func TestRoutesOfAzuresControllerAreAdopted(t *testing.T) {
	s := newAzureSite(t)
	s.launch(3, nil)
	for i := range 3 {
		s.azure.SetRoute(large(i).Name, s.cidr(i), s.machines[i].IPv4)
	}
	s.start()
	s.await(3)
	if n := len(s.azure.Calls("PUT", "/routetables/")); n != 0 {
		t.Errorf("%d writes of a table that was right", n)
	}
}

// Whatever Azure does wrong, all Nodes are routed in the end, and nothing foreign is lost.
func TestRoutesSurviveFaultsOfAzure(t *testing.T) {
	for name, fault := range map[string]azuretest.Fault{
		"conflict":              {Method: "PUT", Part: "/routetables/", Times: 2, Status: 412, Code: "PreconditionFailed"},
		"throttled":             {Method: "PUT", Part: "/routetables/", Times: 1, Status: 429, Code: "TooManyRequests", After: "1"},
		"busy":                  {Method: "PUT", Part: "/routetables/", Times: 2, Status: 409, Code: "AnotherOperationInProgress"},
		"answer lost":           {Method: "PUT", Part: "/routetables/", Times: 1, Cut: true},
		"fails in the end":      {Method: "PUT", Part: "/routetables/", Times: 1, Late: true},
		"operation not shown":   {Part: "/operations/", Times: 2, Status: 500, Code: "InternalServerError"},
		"half of a table":       {Method: "GET", Part: "/routetables/", Times: 2, Cut: true},
		"garbage":               {Method: "GET", Part: "/routetables/", Times: 2, Status: 200, Body: "<html>"},
		"interfaces in halves":  {Method: "GET", Part: "/networkinterfaces", Times: 2, Cut: true},
		"machines denied first": {Method: "GET", Part: "/virtualmachines", Times: 2, Status: 403, Code: "AuthorizationFailed"},
	} {
		s := newAzureSite(t) // here, because a parallel test may not set variables
		s.azure.SetRoute("foreign", "10.200.0.0/16", "VirtualNetworkGateway")
		s.azure.Do(func() { s.azure.Page = 2 })
		s.launch(5, nil)
		s.azure.Inject(fault)
		s.start()
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s.t = t
			s.await(5)
			if hops, _ := s.azure.Routes(); hops["10.200.0.0/16"] != "VirtualNetworkGateway" || len(hops) != 6 {
				t.Errorf("%v", hops)
			}
		})
	}
}

// New Nodes get what Azure knows of their machines, and lose the taint.
func TestNodesOfAzureAreInitialised(t *testing.T) {
	s := newAzureSite(t)
	s.launch(5, func(n *corev1.Node) {
		n.Spec.ProviderID = ""
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "node.cloudprovider.kubernetes.io/uninitialized", Value: "true", Effect: "NoSchedule"})
	})
	p, err := settingsOf(t, "--master="+s.URL, "--healthz-port=0", "--leader-elect=false", "--cloud-provider=azure", "--cloud-config="+s.config).connect()
	if err != nil {
		t.Fatal(err)
	}
	r := s.run(p)
	kerneltest.Eventually(t, patience, func() error {
		for i, m := range s.machines {
			size := "Standard_D4s_v5"
			if m.Set != "" {
				size = "Standard_D2s_v5"
			}
			node := s.Node(large(i).Name)
			has := slices.ContainsFunc(node.Status.Addresses, func(a corev1.NodeAddress) bool { return a.Type == "InternalIP" && a.Address == m.IPv4 })
			if node.Spec.ProviderID != m.ProviderID() || waits(node) || node.Labels["topology.kubernetes.io/zone"] != "westeurope-2" || node.Labels["node.kubernetes.io/instance-type"] != size || !has {
				return fmt.Errorf("%s: %q, %v, %v, %v", node.Name, node.Spec.ProviderID, node.Spec.Taints, node.Labels, node.Status.Addresses)
			}
		}
		return nil
	})
	r.await("leading; every Node matches its instance")
}

func TestAzureSettingsThatDoNotGoTogether(t *testing.T) {
	f := azuretest.New(t)
	good := f.Config()
	for args, part := range map[string]string{
		"":                       "needs a cloud config; add --cloud-config=/etc/kubernetes/azure.json",
		"--cloud-config=" + good: "",
		"--cloud-config=" + f.Config(`"tenantid":7`):                            "tenantid: not a text",
		"--cloud-config=" + good + "x":                                          "no such file",
		"--cloud-config=" + good + " --controllers=*,service":                   "service-lb-controller does not run on this cloud",
		"--cloud-config=" + good + " --azure-api-share=100":                     "",
		"--cloud-config=" + good + " --azure-api-share=0":                       "--azure-api-share is \"0\"",
		"--cloud-config=" + good + " --gce-api-share=7":                         "--gce-api-share: has no effect",
		"--cloud-config=" + good + " --aws-api-share=7":                         "--aws-api-share: has no effect with --cloud-provider=azure",
		"--cloud-config=" + good + " --cluster-name=prod --allocate-node-cidrs": "needs --cluster-cidr",
		"--cloud-config=" + f.Config(`"networkResourceTenantID":"other"`):       "tables in another tenant are not supported",
		"--cloud-config=" + f.Config(`"Cloud":"AzureStackCloud"`):               "is there twice",
	} {
		var s settings
		given, err := s.program().Read(strings.Fields("--cloud-provider=azure "+args), nil)
		if err == nil {
			err = given.Apply()
		}
		if err == nil {
			err = s.check(given)
		}
		if part == "" && err != nil || part != "" && (err == nil || !strings.Contains(err.Error(), part)) {
			t.Errorf("%s: %v", args, err)
		}
	}
	s := settingsOf(t, "--cloud-provider=azure", "--cluster-name=prod", "--cloud-config="+f.Config(`"loadBalancerName":"x"`, `"loadBalancerBackendPoolUpdateIntervalInSeconds":5`, `"tags":"a=b"`))
	if all := strings.Join(s.cloud.warnings, "\n"); !strings.Contains(all, "IntervalInSeconds is about load balancers") || !strings.Contains(all, "tags has no effect") || !strings.Contains(all, "--cluster-name has no effect") {
		t.Error(errors.New(all))
	}
}
