package azure

import (
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/subnet"
)

// powerStates are the power states of machines in our words.
var powerStates = map[string]cloud.State{
	"starting": cloud.Starting, "running": cloud.Running, "stopping": cloud.Stopping, "stopped": cloud.Stopped,
	"deallocating": cloud.Stopping, "deallocated": cloud.Stopped, "hibernating": cloud.Stopping, "hibernated": cloud.Stopped,
}

// stateOf returns what a machine is doing. A machine that is being deleted shows its power
// state until it is gone.
func stateOf(m machine) cloud.State {
	provisioning := strings.ToLower(m.Properties.ProvisioningState)
	if provisioning == "deleting" {
		return cloud.Terminating
	}
	if m.Properties.View != nil {
		for _, s := range m.Properties.View.Statuses {
			if power, is := strings.CutPrefix(strings.ToLower(s.Code), "powerstate/"); is && powerStates[power] != "" {
				return powerStates[power]
			}
		}
	}
	if provisioning == "creating" {
		return cloud.Starting
	}
	// Azure shows no power state for a while. Only what it says counts as stopped.
	return cloud.Running
}

// facts are what was read of a machine.
type facts struct {
	machine
	id     machineID
	nic    *networkInterface
	public map[string]string // addresses by the small letters of their IDs
}

// instance returns a machine as the controllers know it. It fails if the answer cannot be of
// the API.
func (c *Client) instance(f facts) (cloud.Instance, error) {
	p := f.Properties
	v := cloud.Instance{
		ID: f.id.key(), Name: f.id.text(), ProviderID: f.id.providerID(), Account: f.id.subscription, State: stateOf(f.machine),
		Region: c.labels.Check("region", strings.ToLower(f.Location), f.id.text(), labelValue),
	}
	v.Type = p.Hardware.Size
	if f.id.set != "" && f.SKU.Name != "" {
		v.Type = f.SKU.Name
	}
	v.Type = c.labels.Check("type", v.Type, f.id.text(), labelValue)
	v.Zone = c.labels.Check("zone", zoneOf(f), f.id.text(), labelValue)
	if at, err := time.Parse(time.RFC3339, p.Created); err == nil {
		v.Launched = at
	}
	if f.nic == nil {
		return v, nil
	}
	id, ok := parseInterface(f.nic.ID)
	if !ok {
		return cloud.Instance{}, strange(readMachine, "network interface", f.nic.ID)
	}
	if v.Interface, v.Forwards = f.nic.ID, f.nic.Properties.Forwarding; !v.Forwards {
		v.ForwardFix = forwardFix(id)
	}
	for _, c := range f.nic.Properties.Configs {
		if network, _, has := strings.Cut(strings.ToLower(c.Properties.Subnet.ID), "/subnets/"); has && v.Network == "" {
			v.Network = network
		}
	}
	v.NextHops, v.Addresses = addressesOf(f)
	return v, nil
}

// zoneOf returns the zone, or the fault domain of a machine without one, like Azure's own
// controller.
func zoneOf(f facts) string {
	if len(f.Zones) > 0 {
		if _, err := strconv.Atoi(f.Zones[0]); err != nil {
			return f.Zones[0]
		}
		return strings.ToLower(f.Location) + "-" + f.Zones[0]
	}
	switch v := f.Properties.View; {
	case v != nil && v.FaultDomain != nil:
		return strconv.Itoa(*v.FaultDomain)
	case f.id.set == "":
		return "0"
	}
	return ""
}

// addressesOf returns the first private address of each family, and the addresses of the
// Node in the order of Azure's own controller.
func addressesOf(f facts) (hops subnet.Pair[netip.Addr], all []cloud.Address) {
	var public subnet.Pair[netip.Addr]
	for _, primary := range []bool{true, false} {
		for _, c := range f.nic.Properties.Configs {
			a, err := netip.ParseAddr(c.Properties.Address)
			if c.Properties.Primary != primary || err != nil || a.Zone() != "" {
				continue
			}
			family := subnet.FamilyOf(a)
			if hops[family].IsValid() {
				continue
			}
			hops[family] = a
			if p := c.Properties.Public; p != nil {
				if a, err := netip.ParseAddr(f.public[strings.ToLower(p.ID)]); err == nil && a.Zone() == "" {
					public[family] = a
				}
			}
		}
	}
	add := func(t cloud.AddressType, a netip.Addr) {
		if a.IsValid() {
			all = append(all, cloud.Address{Type: t, Value: a.String()})
		}
	}
	add(cloud.InternalIP, hops[subnet.IPv4])
	if name := nodeName(f.machine, f.id); hostName.MatchString(name) {
		all = append(all, cloud.Address{Type: cloud.Hostname, Value: name})
	}
	add(cloud.ExternalIP, public[subnet.IPv4])
	add(cloud.InternalIP, hops[subnet.IPv6])
	add(cloud.ExternalIP, public[subnet.IPv6])
	return hops, all
}

// nodeName returns the name of a machine's Node: the host name of an instance of a scale
// set, and of others the name of the machine.
func nodeName(m machine, id machineID) string {
	if name := strings.ToLower(m.Properties.OS.ComputerName); name != "" {
		return name
	}
	if id.set != "" {
		return ""
	}
	return strings.ToLower(id.name)
}
