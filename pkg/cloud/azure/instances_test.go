package azure

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/cloud/azure/azuretest"
	"github.com/tulle-net/tulle/subnet"
)

// fleet adds n virtual machines and n instances of a scale set.
func (l lab) fleet(n int) (all []azuretest.Machine, ids []string) {
	for i := range n {
		all = append(all,
			l.Add(azuretest.Machine{Name: fmt.Sprint("VM-", i), IPv4: fmt.Sprintf("10.0.1.%d", i+4), IPv6: fmt.Sprintf("fd00::1:%d", i+4), Zone: "3"}),
			l.Add(azuretest.Machine{Name: fmt.Sprint("pool00000", i), Set: "Pool", Number: i, IPv4: fmt.Sprintf("10.0.2.%d", i+4), Public: fmt.Sprintf("192.0.2.%d", i+4), Forwards: true}))
	}
	for _, m := range all {
		ids = append(ids, m.ProviderID())
	}
	return all, ids
}

// One by one or from lists, with small pages or without: the same is known of machines.
func TestInstancesAreTheSameHoweverTheyAreRead(t *testing.T) {
	for _, n := range []int{1, 7} {
		for _, page := range []int{0, 2} {
			l := newLab(t)
			l.Do(func() { l.Page = page })
			machines, ids := l.fleet(n)
			all, err := l.Instances(l.ctx, ids)
			l.must(err)
			if len(all) != 2*n {
				t.Fatalf("%d of %d machines", len(all), 2*n)
			}
			vm, set := all[ids[0]], all[ids[1]]
			hop := netip.MustParseAddr
			if vm.ProviderID != ids[0] || vm.State != cloud.Running || vm.Type != "Standard_D4s_v5" || vm.Zone != "westeurope-3" || vm.Region != "westeurope" || vm.Forwards ||
				vm.NextHops != (subnet.Pair[netip.Addr]{hop("10.0.1.4"), hop("fd00::1:4")}) || vm.ID != strings.ToLower(vm.ID) {
				t.Errorf("%+v", vm)
			}
			if want := []cloud.Address{{Type: cloud.InternalIP, Value: "10.0.1.4"}, {Type: cloud.Hostname, Value: "vm-0"}, {Type: cloud.InternalIP, Value: "fd00::1:4"}}; !slices.Equal(vm.Addresses, want) {
				t.Errorf("%+v", vm.Addresses)
			}
			if set.ProviderID != ids[1] || set.Type != "Standard_D2s_v5" || set.Zone != "" || !set.Forwards || set.NextHops[subnet.IPv4] != hop("10.0.2.4") {
				t.Errorf("%+v", set)
			}
			if want := []cloud.Address{{Type: cloud.InternalIP, Value: "10.0.2.4"}, {Type: cloud.Hostname, Value: "pool000000"}, {Type: cloud.ExternalIP, Value: "192.0.2.4"}}; !slices.Equal(set.Addresses, want) {
				t.Errorf("%+v", set.Addresses)
			}
			named, err := l.Named(l.ctx, []string{"vm-0", "pool000000", "unknown-node"})
			l.must(err)
			if named["vm-0"].ID != vm.ID || named["pool000000"].ID != set.ID || named["unknown-node"].State != cloud.Absent || named["unknown-node"].Problem == "" {
				t.Errorf("%+v", named)
			}
			at, err := l.Addressed(l.ctx, []string{"10.0.1.4", "fd00::1:4", "10.0.2.4", "10.9.9.9", "x"})
			l.must(err)
			if at["10.0.1.4"].ID != vm.ID || at["fd00::1:4"].ID != vm.ID || at["10.0.2.4"].ID != set.ID || at["10.9.9.9"].State != cloud.Absent || at["x"].Problem == "" {
				t.Errorf("%+v", at)
			}
			_ = machines
		}
	}
}

// A machine is absent only if Azure says that this one does not exist.
func TestAbsentMachines(t *testing.T) {
	for _, n := range []int{1, 7} {
		l := newLab(t)
		machines, ids := l.fleet(n)
		l.Remove(machines[0])
		all, err := l.Instances(l.ctx, ids)
		l.must(err)
		if v := all[ids[0]]; v.State != cloud.Absent || v.Problem == "" || all[ids[1]].State != cloud.Running {
			t.Errorf("%+v", all)
		}
		for name, f := range map[string]azuretest.Fault{
			"denied":           {Status: 403, Code: "AuthorizationFailed"},
			"no subscription":  {Status: 404, Code: "SubscriptionNotFound"},
			"a 404 of a proxy": {Status: 404, Body: "not here"},
			"no answer":        {Status: 503, Code: "ServiceUnavailable"},
			"half an answer":   {Cut: true},
			"garbage":          {Status: 200, Body: "{"},
			"another machine":  {Status: 200, Body: `{"id":"/subscriptions/x","value":[{"id":"/x"}]}`},
		} {
			l := newLab(t)
			_, ids := l.fleet(n)
			f.Part = "/virtualmachines"
			l.Inject(f)
			if all, err := l.Instances(l.ctx, ids); err == nil || len(all) > 0 {
				t.Errorf("%s: %v, %v", name, all, err)
			}
			if all, err := l.Named(l.ctx, []string{"vm-0"}); err == nil || len(all) > 0 {
				t.Errorf("%s: %v, %v", name, all, err)
			}
		}
	}
}

// A failure of one scale set leaves the other machines known.
func TestAPlaceKeepsNoOtherBack(t *testing.T) {
	l := newLab(t)
	_, ids := l.fleet(5)
	l.Inject(azuretest.Fault{Part: "/virtualmachinescalesets/", Status: 403, Code: "AuthorizationFailed"})
	all, err := l.Instances(l.ctx, ids)
	if len(all) != 5 || err == nil || !strings.Contains(err.Error(), "allow Microsoft.Compute/virtualMachineScaleSets/virtualMachines/read in a role") {
		t.Errorf("%d machines, %v", len(all), err)
	}
}

// Interfaces and public addresses that cannot be read never make a machine look as if it
// had none.
func TestMachinesWithoutTheirNetworkAreUnknown(t *testing.T) {
	for _, n := range []int{1, 7} {
		for _, part := range []string{"/networkinterfaces", "/publicipaddresses"} {
			l := newLab(t)
			_, ids := l.fleet(n)
			l.Inject(azuretest.Fault{Part: part, Status: 403, Code: "AuthorizationFailed"})
			all, err := l.Instances(l.ctx, ids)
			if err == nil {
				t.Errorf("%s: no error", part)
			}
			for id, v := range all {
				if !v.NextHops[subnet.IPv4].IsValid() || strings.Contains(id, "Pool") {
					t.Errorf("%s: %+v", part, v)
				}
			}
		}
	}
}

// States come from the subscription's list, or machine by machine where that is denied.
func TestStates(t *testing.T) {
	for _, denied := range []bool{false, true} {
		l := newLab(t)
		machines, ids := l.fleet(6)
		for i, power := range []string{"deallocated", "starting", "stopping", "stopped"} {
			l.SetPower(machines[2*i], power)
		}
		l.SetPower(machines[1], "deallocated")
		l.Set(machines[8], "provisioningState", "Deleting")
		if denied {
			l.Inject(azuretest.Fault{Part: "/subscriptions/" + azuretest.Subscription + "/providers/", Status: 403, Code: "AuthorizationFailed"})
		}
		all, err := l.Instances(l.ctx, ids)
		l.must(err)
		for i, want := range map[int]cloud.State{0: cloud.Stopped, 2: cloud.Starting, 4: cloud.Stopping, 6: cloud.Stopped, 8: cloud.Terminating, 10: cloud.Running, 1: cloud.Stopped, 3: cloud.Running} {
			if is := all[ids[i]].State; is != want {
				t.Errorf("denied %v: %s is %s, want %s", denied, ids[i], is, want)
			}
		}
		if n := len(l.Server.Calls("", "")); !denied && n > 12 {
			t.Errorf("%d requests for 12 machines", n)
		}
	}
}

// A machine whose state cannot be read is unknown. It never looks as if it ran, and never
// as if it had no network.
func TestMachinesWithoutTheirStateAreUnknown(t *testing.T) {
	for name, want := range map[string]int{"list": 6, "machine": 11} {
		l := newLab(t)
		machines, ids := l.fleet(6)
		l.SetPower(machines[0], "deallocated")
		whole := "/subscriptions/" + azuretest.Subscription + "/providers/"
		switch name {
		case "list":
			l.Inject(azuretest.Fault{Part: whole, Status: 503, Code: "ServiceUnavailable"})
		case "machine":
			l.Set(machines[0], "instanceView", nil) // no list has it
			l.Inject(azuretest.Fault{Part: "/virtualmachines/vm-0", Status: 503, Code: "ServiceUnavailable"})
		}
		all, err := l.Instances(l.ctx, ids)
		if err == nil || len(all) != want {
			t.Errorf("%s: %d machines, %v", name, len(all), err)
		}
		for id, v := range all {
			if id == ids[0] || !v.NextHops[subnet.IPv4].IsValid() || len(v.Addresses) == 0 {
				t.Errorf("%s: %+v", name, v)
			}
		}
	}
}

// Forward writes only what is not known to forward, keeps what it does not know, and names
// the setting of a scale set.
func TestForward(t *testing.T) {
	l := newLab(t)
	machines, ids := l.fleet(1)
	all, err := l.Instances(l.ctx, ids)
	l.must(err)
	l.Inject(azuretest.Fault{Method: "PUT", Times: 1, Status: 412, Code: "PreconditionFailed"})
	l.must(l.Forward(l.ctx, all[ids[0]]), l.Forward(l.ctx, all[ids[0]]))
	if !l.Forwards(machines[0]) || len(l.Server.Calls("PUT", "/networkinterfaces/")) != 2 {
		t.Errorf("%+v", l.Server.Calls("PUT", ""))
	}
	if err := l.Forward(l.ctx, all[ids[1]]); cloud.KindOf(err) != cloud.Refused || err == nil || !strings.Contains(err.Error(), "set enableIPForwarding in the network profile") {
		t.Errorf("%v", err)
	}
	if err := l.Forward(l.ctx, cloud.Instance{ID: "x"}); err == nil {
		t.Error("forwards nothing")
	}
}

func TestProviderIDs(t *testing.T) {
	good := "azure:///subscriptions/" + azuretest.Subscription + "/resourceGroups/g/providers/Microsoft.Compute/"
	for text, ok := range map[string]bool{
		good + "virtualMachines/a": true, good + "virtualMachineScaleSets/s/virtualMachines/7": true,
		strings.Replace(good, "resourceGroups/g", "resourcegroups/G", 1) + "virtualmachines/A": true,
		"aws:///eu-west-1a/i-1": false, good + "virtualMachines/": false, good + "virtualMachines/a/b": false, good + "virtualMachineScaleSets/s/virtualMachines/x": false,
		good + "virtualMachines/..": false, good + "virtualMachines/a?b=c": false, "azure://": false, "": false, "azure:///subscriptions/x/resourceGroups/g/providers/Microsoft.Compute/virtualMachines/a": false,
	} {
		if _, err := parseID(text); (err == nil) != ok {
			t.Errorf("%s: %v", text, err)
		}
	}
	l := newLab(t)
	other := strings.Replace(good, azuretest.Subscription, "11111111-2222-3333-4444-555555555555", 1) + "virtualMachines/a"
	all, err := l.Instances(l.ctx, []string{other, "aws:///eu-west-1a/i-1"})
	if err != nil || all[other].State != "" || !strings.Contains(all[other].Problem, "run this program for the subscription of the Nodes") || all["aws:///eu-west-1a/i-1"].Problem == "" {
		t.Errorf("%+v, %v", all, err)
	}
}

func FuzzProviderID(f *testing.F) {
	f.Add("azure:///subscriptions/" + azuretest.Subscription + "/resourceGroups/g/providers/Microsoft.Compute/virtualMachineScaleSets/s/virtualMachines/7")
	f.Fuzz(func(t *testing.T, text string) {
		id, err := parseID(text)
		if err != nil {
			return
		}
		if again, err := parseID(id.providerID()); err != nil || again != id {
			t.Errorf("%q: %+v, %+v, %v", text, id, again, err)
		}
	})
}
