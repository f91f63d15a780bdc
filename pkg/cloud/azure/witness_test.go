//go:build azure

package azure

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	azfake "github.com/Azure/azure-sdk-for-go/sdk/azcore/fake"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"
	computefake "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8/fake"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/network/armnetwork/v9"
	networkfake "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/network/armnetwork/v9/fake"

	"github.com/tulle-net/tulle/pkg/cloud/azure/azuretest"
)

// official is a subscription made of Microsoft's official fakes. They read the client's
// requests, and write Azure's answers, with types that Microsoft generates from Azure's
// specification. What is in the subscription is here.
type official struct {
	t       *testing.T
	network *networkfake.ServerFactoryTransport
	compute *computefake.ServerFactoryTransport

	mu         sync.Mutex
	seen       map[string]bool // the operations that were requested
	table      armnetwork.RouteTable
	etags      int
	nics       map[string]armnetwork.Interface // by the small letters of their IDs
	power      string                          // of the virtual machine
	gone       bool                            // the virtual machine
	refusal    *azfake.ErrorResponder
	failsInEnd bool
	stale      bool // the fakes go on with an operation that has failed
}

// operations are the names of the SDK's operations, by method and path. A star is one name.
var operations = []struct{ method, path, name string }{
	{"GET", "Microsoft.Network/routeTables/*", "RouteTablesClient.Get"},
	{"PUT", "Microsoft.Network/routeTables/*", "RouteTablesClient.BeginCreateOrUpdate"},
	{"GET", "Microsoft.Network/networkInterfaces", "InterfacesClient.NewListPager"},
	{"GET", "Microsoft.Network/networkInterfaces/*", "InterfacesClient.Get"},
	{"PUT", "Microsoft.Network/networkInterfaces/*", "InterfacesClient.BeginCreateOrUpdate"},
	{"GET", "Microsoft.Network/locations/*/usages", "UsagesClient.NewListPager"},
	{"GET", "Microsoft.Compute/virtualMachineScaleSets/*/networkInterfaces", "InterfacesClient.NewListVirtualMachineScaleSetNetworkInterfacesPager"},
	{"GET", "Microsoft.Compute/virtualMachineScaleSets/*/virtualMachines/*/networkInterfaces/*", "InterfacesClient.GetVirtualMachineScaleSetNetworkInterface"},
	{"GET", "Microsoft.Compute/virtualMachines/*", "VirtualMachinesClient.Get"},
	{"GET", "Microsoft.Compute/virtualMachines", "VirtualMachinesClient.NewListPager"},
	{"GET", "Microsoft.Compute/virtualMachineScaleSets", "VirtualMachineScaleSetsClient.NewListPager"},
	{"GET", "Microsoft.Compute/virtualMachineScaleSets/*/virtualMachines", "VirtualMachineScaleSetVMsClient.NewListPager"},
	{"GET", "Microsoft.Compute/virtualMachineScaleSets/*/virtualMachines/*", "VirtualMachineScaleSetVMsClient.Get"},
}

// listAll is the one operation whose path differs from another's only before the provider.
const listAll = "VirtualMachinesClient.NewListAllPager"

// operationOf returns the name of the operation that a request is, or "".
func operationOf(method, path string) string {
	before, rest, _ := strings.Cut(path, "/providers/")
	is := strings.Split(rest, "/")
	for _, o := range operations {
		want := strings.Split(o.path, "/")
		same := len(want) == len(is) && o.method == method
		for i := 0; same && i < len(want); i++ {
			same = want[i] == "*" || strings.EqualFold(want[i], is[i])
		}
		switch {
		case same && o.name == "VirtualMachinesClient.NewListPager" && !strings.Contains(before, "/resourceGroups/"):
			return listAll
		case same:
			return o.name
		}
	}
	return ""
}

// Do implements policy.Transporter. The official fakes find the operation in the context,
// where the SDK's own clients name it.
func (o *official) Do(r *http.Request) (*http.Response, error) {
	method, path := r.Method, r.URL.Path
	of, _, polls := strings.Cut(path, "/get/fake/status") // the fakes' form of a look at an operation
	if polls {
		method, path = http.MethodPut, of
	}
	path, _, _ = strings.Cut(path, "/fake_page_") // and of a link to the next page
	name := operationOf(method, path)
	if name == "" {
		o.t.Errorf("%s %s is no operation of the SDK", r.Method, r.URL.Path)
		return nil, fmt.Errorf("%s is not known", r.URL.Path)
	}
	o.set(func() {
		o.seen[name] = true
		if method == http.MethodPut && !polls && o.stale {
			o.network, o.stale = networkfake.NewServerFactoryTransport(o.networkServers()), false
		}
	})
	r = r.Clone(context.WithValue(r.Context(), runtime.CtxAPINameKey{}, name))
	if strings.HasPrefix(name, "InterfacesClient") {
		// Azure ignores case here, and the fakes do not.
		r.URL.Path = strings.Replace(r.URL.Path, "/Microsoft.Compute/", "/microsoft.Compute/", 1)
	}
	if strings.HasPrefix(name, "VirtualMachine") {
		return o.compute.Do(r)
	}
	return o.network.Do(r)
}

// set changes what is in the subscription.
func (o *official) set(f func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	f()
}

// The IDs of what is in the subscription.
const (
	ofGroup = "/subscriptions/" + azuretest.Subscription + "/resourceGroups/" + azuretest.Group + "/providers/"
	ofTable = ofGroup + "Microsoft.Network/routeTables/" + azuretest.Table
	ofNIC   = ofGroup + "Microsoft.Network/networkInterfaces/nic"
	ofVM    = ofGroup + "Microsoft.Compute/virtualMachines/VM-1"
	ofInSet = ofGroup + "Microsoft.Compute/virtualMachineScaleSets/Pool/virtualMachines/3"
	ofSet   = ofInSet + "/networkInterfaces/nic"
)

// providerID returns the provider ID of a machine's Node.
func providerID(path string) string {
	return scheme + strings.Replace(path, "/"+azuretest.Group+"/", "/"+strings.ToLower(azuretest.Group)+"/", 1)
}

// newOfficial returns a subscription of the conformance table.
func newOfficial(t *testing.T) *official {
	o := &official{t: t, power: "running", seen: make(map[string]bool), nics: make(map[string]armnetwork.Interface)}
	o.table = armnetwork.RouteTable{
		ID: to.Ptr(ofTable), Name: to.Ptr(azuretest.Table), Location: to.Ptr(azuretest.Location), Etag: to.Ptr(`W/"0"`), Tags: map[string]*string{"owner": to.Ptr("network")},
		Properties: &armnetwork.RouteTablePropertiesFormat{
			DisableBgpRoutePropagation: to.Ptr(true), ProvisioningState: to.Ptr(armnetwork.ProvisioningStateSucceeded),
			Routes: []*armnetwork.Route{{Name: to.Ptr("firewall"), Properties: &armnetwork.RoutePropertiesFormat{AddressPrefix: to.Ptr("0.0.0.0/0"), NextHopType: to.Ptr(armnetwork.RouteNextHopTypeInternet)}}},
		},
	}
	nic := func(id string, addresses ...string) {
		p := &armnetwork.InterfacePropertiesFormat{EnableIPForwarding: to.Ptr(false)}
		for i, a := range addresses {
			version := armnetwork.IPVersionIPv4
			if strings.Contains(a, ":") {
				version = armnetwork.IPVersionIPv6
			}
			p.IPConfigurations = append(p.IPConfigurations, &armnetwork.InterfaceIPConfiguration{Name: to.Ptr(fmt.Sprint("config", i)), Properties: &armnetwork.InterfaceIPConfigurationPropertiesFormat{
				Primary: to.Ptr(i == 0), PrivateIPAddress: to.Ptr(a), PrivateIPAddressVersion: &version, Subnet: &armnetwork.Subnet{ID: to.Ptr(ofGroup + "Microsoft.Network/virtualNetworks/net/subnets/nodes")},
			}})
		}
		o.nics[strings.ToLower(id)] = armnetwork.Interface{ID: to.Ptr(id), Name: to.Ptr("nic"), Location: to.Ptr(azuretest.Location), Etag: to.Ptr(`W/"nic"`), Properties: p}
	}
	nic(ofNIC, "10.0.1.4", "fd00::4")
	nic(ofSet, "10.0.2.4")
	o.network = networkfake.NewServerFactoryTransport(o.networkServers())
	o.compute = computefake.NewServerFactoryTransport(&computefake.ServerFactory{
		VirtualMachinesServer:           o.machineServer(),
		VirtualMachineScaleSetsServer:   o.setServer(),
		VirtualMachineScaleSetVMsServer: o.inSetServer(),
	})
	return o
}

// machine returns the virtual machine, with or without its instance view.
func (o *official) machine(viewed bool) armcompute.VirtualMachine {
	vm := armcompute.VirtualMachine{ID: to.Ptr(ofVM), Name: to.Ptr("VM-1"), Location: to.Ptr(azuretest.Location), Zones: []*string{to.Ptr("2")}, Properties: &armcompute.VirtualMachineProperties{
		HardwareProfile: &armcompute.HardwareProfile{VMSize: to.Ptr(armcompute.VirtualMachineSizeTypes("Standard_D4s_v5"))}, OSProfile: &armcompute.OSProfile{ComputerName: to.Ptr("VM-1")},
		NetworkProfile: &armcompute.NetworkProfile{NetworkInterfaces: []*armcompute.NetworkInterfaceReference{{ID: to.Ptr(ofNIC)}}}, ProvisioningState: to.Ptr("Succeeded"),
	}}
	if viewed {
		vm.Properties.InstanceView = &armcompute.VirtualMachineInstanceView{Statuses: statuses(o.power)}
	}
	return vm
}

// inSet returns the instance of the scale set.
func (o *official) inSet() armcompute.VirtualMachineScaleSetVM {
	return armcompute.VirtualMachineScaleSetVM{ID: to.Ptr(ofInSet), Name: to.Ptr("Pool_3"), InstanceID: to.Ptr("3"), Location: to.Ptr(azuretest.Location), SKU: &armcompute.SKU{Name: to.Ptr("Standard_D2s_v5")}, Properties: &armcompute.VirtualMachineScaleSetVMProperties{
		OSProfile:      &armcompute.OSProfile{ComputerName: to.Ptr("pool000003")},
		NetworkProfile: &armcompute.NetworkProfile{NetworkInterfaces: []*armcompute.NetworkInterfaceReference{{ID: to.Ptr(ofSet)}}},
		InstanceView:   &armcompute.VirtualMachineScaleSetVMInstanceView{Statuses: statuses("running")},
	}}
}

func statuses(power string) []*armcompute.InstanceViewStatus {
	return []*armcompute.InstanceViewStatus{{Code: to.Ptr("ProvisioningState/succeeded")}, {Code: to.Ptr("PowerState/" + power)}}
}

// ground returns the subscription as the rows know it.
func (o *official) ground(t *testing.T) *ground {
	g := &ground{
		vm: providerID(ofVM), inSet: providerID(ofInSet), state: o.state,
		write: func(name, prefix, hop string) {
			o.set(func() {
				routes := slices.DeleteFunc(slices.Clone(o.table.Properties.Routes), func(r *armnetwork.Route) bool { return *r.Properties.AddressPrefix == prefix })
				o.table.Properties.Routes = append(routes, &armnetwork.Route{Name: to.Ptr(name), Properties: &armnetwork.RoutePropertiesFormat{
					AddressPrefix: to.Ptr(prefix), NextHopType: to.Ptr(armnetwork.RouteNextHopTypeVirtualAppliance), NextHopIPAddress: to.Ptr(hop),
				}})
				o.tag()
			})
		},
		forwards: func() (is bool) {
			o.set(func() { is = *o.nics[strings.ToLower(ofNIC)].Properties.EnableIPForwarding })
			return is
		},
		deallocate: func() { o.set(func() { o.power = "deallocated" }) },
		remove:     func() { o.set(func() { o.gone = true }) },
		refuse: func(status int, code string) {
			o.set(func() {
				o.refusal = new(azfake.ErrorResponder)
				o.refusal.SetResponseError(status, code)
			})
		},
		fail: func() { o.set(func() { o.failsInEnd = true }) },
	}
	g.prepare(t, Options{
		Config:     Config{Cloud: "AzurePublicCloud", Subscription: azuretest.Subscription, TableSubscription: azuretest.Subscription, Group: azuretest.Group, TableGroup: azuretest.Group, Table: azuretest.Table, Location: azuretest.Location},
		Credential: &azfake.TokenCredential{},
	}, o)
	return g
}

// state returns what the route table has.
func (o *official) state() tableState {
	o.mu.Lock()
	defer o.mu.Unlock()
	p := o.table.Properties
	s := tableState{make(map[string]string), make(map[string]string), o.table.Tags["owner"] != nil && *o.table.Tags["owner"] == "network" && p.DisableBgpRoutePropagation != nil && *p.DisableBgpRoutePropagation}
	for _, r := range p.Routes {
		prefix := *r.Properties.AddressPrefix
		s.hops[prefix], s.names[prefix] = string(*r.Properties.NextHopType), *r.Name
		if hop := r.Properties.NextHopIPAddress; hop != nil {
			s.hops[prefix] = *hop
			if *r.Properties.NextHopType != armnetwork.RouteNextHopTypeVirtualAppliance {
				o.t.Errorf("the next hop of %s is a %s", prefix, *r.Properties.NextHopType)
			}
		}
	}
	return s
}

// TestMicrosoftConforms runs the conformance table with Microsoft's own fakes. Each of the
// operations is requested at least once.
func TestMicrosoftConforms(t *testing.T) {
	seen := make(map[string]bool)
	testConformance(t, func(t *testing.T) *ground {
		o := newOfficial(t)
		t.Cleanup(func() { o.set(func() { maps.Copy(seen, o.seen) }) })
		return o.ground(t)
	})
	for _, o := range operations {
		if !seen[o.name] {
			t.Errorf("%s was not requested", o.name)
		}
	}
	if !seen[listAll] {
		t.Errorf("%s was not requested", listAll)
	}
}
