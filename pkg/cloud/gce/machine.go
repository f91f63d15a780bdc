package gce

import (
	"net/netip"
	"path"
	"regexp"
	"slices"
	"time"

	"github.com/tulle-net/tulle/pkg/cloud"
)

// states are the states of instances in our words. An instance never says that it is gone:
// the API forgets it.
var states = map[string]cloud.State{
	"PROVISIONING": cloud.Starting, "STAGING": cloud.Starting, "REPAIRING": cloud.Starting,
	"RUNNING":  cloud.Running,
	"STOPPING": cloud.Stopping, "PENDING_STOP": cloud.Stopping, "SUSPENDING": cloud.Stopping, "DEPROVISIONING": cloud.Stopping,
	"TERMINATED": cloud.Stopped, "STOPPED": cloud.Stopped, "SUSPENDED": cloud.Stopped,
}

// machineID returns the ID of an instance, which is unique in its project.
func machineID(zone, name string) string { return zone + "/" + name }

// typeName is a value that a label can have.
var typeName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$`)

// machine returns what controllers know of an instance in a zone.
func (c *Client) machine(at place, i *instance) cloud.Instance {
	v := i.value()
	v.ID, v.ProviderID = machineID(at.zone, i.Name), scheme+at.project+"/"+at.zone+"/"+i.Name
	v.Zone, v.Region, v.Account, v.Forwards = at.zone, regionOf(at.zone), at.project, i.Forwards
	if !v.Forwards {
		v.ForwardFix = forwardFix
	}
	if v.State = states[i.Status]; v.State == "" && i.Status != "" {
		v.State = cloud.Running // a later API's word for it is no reason to taint or delete a Node
	}
	if kind := path.Base(i.Type); typeName.MatchString(kind) {
		v.Type = kind
	}
	v.Launched, _ = time.Parse(time.RFC3339, i.Started)
	if d := i.first(); d != nil {
		v.Network = networkOf(d.Network)
	}
	v.Addresses = i.addresses(c.options.Config.IPv6First)
	return v
}

// addresses returns the addresses in the order of Google's own controller, which has no
// type for external addresses of IPv6.
func (i *instance) addresses(sixFirst bool) (all []cloud.Address) {
	for n := range i.Interfaces {
		d := &i.Interfaces[n]
		all = appendIP(all, cloud.InternalIP, d.IP)
		for _, a := range d.Public {
			all = appendIP(all, cloud.ExternalIP, a.IP)
		}
		all = appendIP(all, cloud.InternalIP, d.address6())
	}
	slices.SortStableFunc(all, func(a, b cloud.Address) int {
		switch six, sixToo := is6(a), is6(b); {
		case six == sixToo:
			return 0
		case six == sixFirst:
			return -1
		}
		return 1
	})
	return all
}

func is6(a cloud.Address) bool { return netip.MustParseAddr(a.Value).Is6() }

// appendIP appends an address that is one.
func appendIP(all []cloud.Address, t cloud.AddressType, text string) []cloud.Address {
	ip, err := netip.ParseAddr(text)
	if err != nil || ip.Zone() != "" || ip.Is4In6() {
		return all
	}
	return append(all, cloud.Address{Type: t, Value: ip.String()})
}
