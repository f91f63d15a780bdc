//go:build azure

package azure

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	azfake "github.com/Azure/azure-sdk-for-go/sdk/azcore/fake"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"
	computefake "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8/fake"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/network/armnetwork/v9"
	networkfake "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/network/armnetwork/v9/fake"
)

// This file has what the official fakes answer.

// tag gives the route table another ETag.
func (o *official) tag() {
	o.etags++
	o.table.Etag = to.Ptr(fmt.Sprintf(`W/"%d"`, o.etags))
}

// networkServers are the fakes of Microsoft.Network.
func (o *official) networkServers() *networkfake.ServerFactory {
	return &networkfake.ServerFactory{
		RouteTablesServer: networkfake.RouteTablesServer{Get: o.getTable, BeginCreateOrUpdate: o.putTable},
		InterfacesServer: networkfake.InterfacesServer{
			Get: func(_ context.Context, _, name string, _ *armnetwork.InterfacesClientGetOptions) (r azfake.Responder[armnetwork.InterfacesClientGetResponse], e azfake.ErrorResponder) {
				o.set(func() {
					if name != "nic" {
						e.SetResponseError(http.StatusNotFound, "ResourceNotFound")
						return
					}
					r.SetResponse(http.StatusOK, armnetwork.InterfacesClientGetResponse{Interface: o.nics[strings.ToLower(ofNIC)]}, nil)
				})
				return r, e
			},
			BeginCreateOrUpdate: o.putInterface,
			NewListPager: func(string, *armnetwork.InterfacesClientListOptions) (r azfake.PagerResponder[armnetwork.InterfacesClientListResponse]) {
				o.set(func() {
					nic := o.nics[strings.ToLower(ofNIC)]
					// An empty page is not the last one.
					r.AddPage(http.StatusOK, armnetwork.InterfacesClientListResponse{InterfaceListResult: armnetwork.InterfaceListResult{Value: []*armnetwork.Interface{}}}, nil)
					r.AddPage(http.StatusOK, armnetwork.InterfacesClientListResponse{InterfaceListResult: armnetwork.InterfaceListResult{Value: []*armnetwork.Interface{&nic}}}, nil)
				})
				return r
			},
			NewListVirtualMachineScaleSetNetworkInterfacesPager: func(string, string, *armnetwork.InterfacesClientListVirtualMachineScaleSetNetworkInterfacesOptions) (r azfake.PagerResponder[armnetwork.InterfacesClientListVirtualMachineScaleSetNetworkInterfacesResponse]) {
				o.set(func() {
					nic := o.nics[strings.ToLower(ofSet)]
					r.AddPage(http.StatusOK, armnetwork.InterfacesClientListVirtualMachineScaleSetNetworkInterfacesResponse{InterfaceListResult: armnetwork.InterfaceListResult{Value: []*armnetwork.Interface{&nic}}}, nil)
				})
				return r
			},
			GetVirtualMachineScaleSetNetworkInterface: func(_ context.Context, _, set, index, name string, _ *armnetwork.InterfacesClientGetVirtualMachineScaleSetNetworkInterfaceOptions) (r azfake.Responder[armnetwork.InterfacesClientGetVirtualMachineScaleSetNetworkInterfaceResponse], e azfake.ErrorResponder) {
				o.set(func() {
					if !strings.EqualFold(set, "Pool") || index != "3" || name != "nic" {
						e.SetResponseError(http.StatusNotFound, "ResourceNotFound")
						return
					}
					r.SetResponse(http.StatusOK, armnetwork.InterfacesClientGetVirtualMachineScaleSetNetworkInterfaceResponse{Interface: o.nics[strings.ToLower(ofSet)]}, nil)
				})
				return r, e
			},
		},
		UsagesServer: networkfake.UsagesServer{NewListPager: func(string, *armnetwork.UsagesClientListOptions) (r azfake.PagerResponder[armnetwork.UsagesClientListResponse]) {
			for name, limit := range map[string]int64{"RouteTables": 200, "RoutesPerRouteTable": 1000} {
				r.AddPage(http.StatusOK, armnetwork.UsagesClientListResponse{UsagesListResult: armnetwork.UsagesListResult{Value: []*armnetwork.Usage{{Name: &armnetwork.UsageName{Value: to.Ptr(name)}, Limit: to.Ptr(limit)}}}}, nil)
			}
			return r
		}},
	}
}

func (o *official) getTable(context.Context, string, string, *armnetwork.RouteTablesClientGetOptions) (r azfake.Responder[armnetwork.RouteTablesClientGetResponse], e azfake.ErrorResponder) {
	o.set(func() {
		t, p := o.table, *o.table.Properties
		p.Routes = slices.Clone(p.Routes)
		t.Properties = &p
		r.SetResponse(http.StatusOK, armnetwork.RouteTablesClientGetResponse{RouteTable: t}, nil)
	})
	return r, e
}

// putTable writes the table if it is still the one that the request was made from. The
// fakes hand on no header, so the ETag is the one that the client sends in the body.
func (o *official) putTable(_ context.Context, _, _ string, t armnetwork.RouteTable, _ *armnetwork.RouteTablesClientBeginCreateOrUpdateOptions) (r azfake.PollerResponder[armnetwork.RouteTablesClientCreateOrUpdateResponse], e azfake.ErrorResponder) {
	o.set(func() {
		switch {
		case o.refusal != nil:
			e, o.refusal = *o.refusal, nil
			return
		case t.Etag == nil || *t.Etag != *o.table.Etag:
			e.SetResponseError(http.StatusPreconditionFailed, "PreconditionFailed")
			return
		}
		r.AddNonTerminalResponse(http.StatusOK, nil)
		r.AddNonTerminalResponse(http.StatusOK, nil)
		if o.failsInEnd {
			o.failsInEnd, o.stale = false, true
			r.SetTerminalError(http.StatusConflict, "InternalServerError")
			return
		}
		o.table = t
		o.tag()
		r.SetTerminalResponse(http.StatusOK, armnetwork.RouteTablesClientCreateOrUpdateResponse{RouteTable: o.table}, nil)
	})
	return r, e
}

func (o *official) putInterface(_ context.Context, _, name string, n armnetwork.Interface, _ *armnetwork.InterfacesClientBeginCreateOrUpdateOptions) (r azfake.PollerResponder[armnetwork.InterfacesClientCreateOrUpdateResponse], e azfake.ErrorResponder) {
	o.set(func() {
		key := strings.ToLower(ofNIC)
		if name != "nic" || n.Etag == nil || *n.Etag != *o.nics[key].Etag {
			e.SetResponseError(http.StatusPreconditionFailed, "PreconditionFailed")
			return
		}
		o.nics[key] = n
		r.AddNonTerminalResponse(http.StatusCreated, nil)
		r.SetTerminalResponse(http.StatusOK, armnetwork.InterfacesClientCreateOrUpdateResponse{Interface: n}, nil)
	})
	return r, e
}

// machineServer is the fake of virtual machines. Lists have no instance view, unless they
// are asked for the states alone.
func (o *official) machineServer() computefake.VirtualMachinesServer {
	all := func(viewed bool) []*armcompute.VirtualMachine {
		all := []*armcompute.VirtualMachine{}
		o.set(func() {
			if vm := o.machine(viewed); !o.gone {
				all = append(all, &vm)
			}
		})
		return all
	}
	return computefake.VirtualMachinesServer{
		Get: func(_ context.Context, _, name string, options *armcompute.VirtualMachinesClientGetOptions) (r azfake.Responder[armcompute.VirtualMachinesClientGetResponse], e azfake.ErrorResponder) {
			o.set(func() {
				if o.gone || !strings.EqualFold(name, "VM-1") {
					e.SetResponseError(http.StatusNotFound, "ResourceNotFound")
					return
				}
				viewed := options != nil && options.Expand != nil && *options.Expand == armcompute.InstanceViewTypesInstanceView
				r.SetResponse(http.StatusOK, armcompute.VirtualMachinesClientGetResponse{VirtualMachine: o.machine(viewed)}, nil)
			})
			return r, e
		},
		NewListPager: func(string, *armcompute.VirtualMachinesClientListOptions) (r azfake.PagerResponder[armcompute.VirtualMachinesClientListResponse]) {
			r.AddPage(http.StatusOK, armcompute.VirtualMachinesClientListResponse{VirtualMachineListResult: armcompute.VirtualMachineListResult{Value: all(false)}}, nil)
			return r
		},
		NewListAllPager: func(options *armcompute.VirtualMachinesClientListAllOptions) (r azfake.PagerResponder[armcompute.VirtualMachinesClientListAllResponse]) {
			states := options != nil && options.StatusOnly != nil && *options.StatusOnly == "true"
			r.AddPage(http.StatusOK, armcompute.VirtualMachinesClientListAllResponse{VirtualMachineListResult: armcompute.VirtualMachineListResult{Value: all(states)}}, nil)
			return r
		},
	}
}

// setServer is the fake of scale sets: one is uniform, and one is flexible.
func (o *official) setServer() computefake.VirtualMachineScaleSetsServer {
	set := func(name string, mode armcompute.OrchestrationMode) *armcompute.VirtualMachineScaleSet {
		return &armcompute.VirtualMachineScaleSet{Name: to.Ptr(name), Properties: &armcompute.VirtualMachineScaleSetProperties{OrchestrationMode: to.Ptr(mode)}}
	}
	return computefake.VirtualMachineScaleSetsServer{NewListPager: func(string, *armcompute.VirtualMachineScaleSetsClientListOptions) (r azfake.PagerResponder[armcompute.VirtualMachineScaleSetsClientListResponse]) {
		r.AddPage(http.StatusOK, armcompute.VirtualMachineScaleSetsClientListResponse{VirtualMachineScaleSetListResult: armcompute.VirtualMachineScaleSetListResult{Value: []*armcompute.VirtualMachineScaleSet{set("Flex", armcompute.OrchestrationModeFlexible)}}}, nil)
		r.AddPage(http.StatusOK, armcompute.VirtualMachineScaleSetsClientListResponse{VirtualMachineScaleSetListResult: armcompute.VirtualMachineScaleSetListResult{Value: []*armcompute.VirtualMachineScaleSet{set("Pool", armcompute.OrchestrationModeUniform)}}}, nil)
		return r
	}}
}

// inSetServer is the fake of the instances of the uniform scale set.
func (o *official) inSetServer() computefake.VirtualMachineScaleSetVMsServer {
	return computefake.VirtualMachineScaleSetVMsServer{
		Get: func(_ context.Context, _, set, index string, _ *armcompute.VirtualMachineScaleSetVMsClientGetOptions) (r azfake.Responder[armcompute.VirtualMachineScaleSetVMsClientGetResponse], e azfake.ErrorResponder) {
			if !strings.EqualFold(set, "Pool") || index != "3" {
				e.SetResponseError(http.StatusNotFound, "ResourceNotFound")
				return r, e
			}
			r.SetResponse(http.StatusOK, armcompute.VirtualMachineScaleSetVMsClientGetResponse{VirtualMachineScaleSetVM: o.inSet()}, nil)
			return r, e
		},
		NewListPager: func(string, string, *armcompute.VirtualMachineScaleSetVMsClientListOptions) (r azfake.PagerResponder[armcompute.VirtualMachineScaleSetVMsClientListResponse]) {
			vm := o.inSet()
			r.AddPage(http.StatusOK, armcompute.VirtualMachineScaleSetVMsClientListResponse{VirtualMachineScaleSetVMListResult: armcompute.VirtualMachineScaleSetVMListResult{Value: []*armcompute.VirtualMachineScaleSetVM{&vm}}}, nil)
			return r
		},
	}
}
