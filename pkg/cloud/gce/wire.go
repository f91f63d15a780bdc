package gce

import (
	"net/netip"

	"github.com/tulle-net/tulle/pkg/cloud"
)

// fieldsOfInstance are the fields that requests ask for.
const fieldsOfInstance = "name,networkInterfaces(name,fingerprint,aliasIpRanges,ipv6Address,ipv6AccessType,ipv6AccessConfigs(externalIpv6))"

// instance has the fields of an instance that matter, with the API's names.
type instance struct {
	Name       string      `json:"name"`
	Interfaces []netDevice `json:"networkInterfaces"`
}

// netDevice is a network interface, in answers and in a PATCH.
type netDevice struct {
	Name        string  `json:"name,omitempty"`
	Fingerprint string  `json:"fingerprint,omitempty"`
	Aliases     []alias `json:"aliasIpRanges"`

	IPv6       string       `json:"ipv6Address,omitempty"`
	IPv6Access string       `json:"ipv6AccessType,omitempty"`
	IPv6Public []ipv6Access `json:"ipv6AccessConfigs,omitempty"`
}

type alias struct {
	Range string `json:"ipCidrRange"`
	From  string `json:"subnetworkRangeName,omitempty"`
}

type ipv6Access struct {
	Address string `json:"externalIpv6"`
}

// instances is a page of a list.
type instances struct {
	Items []instance `json:"items"`
	Next  string     `json:"nextPageToken"`
}

// operation is a change that the API makes in its own time.
type operation struct {
	Name   string `json:"name"`
	Status string `json:"status"`
	Error  struct {
		Errors []struct {
			Code    string `json:"code"`
			Message string `json:"message"`
		} `json:"errors"`
	} `json:"error"`
}

// done is the status of an operation that has ended.
const done = "DONE"

// first returns the interface whose aliases count: nic0, or the first one.
func (i *instance) first() *netDevice {
	for n := range i.Interfaces {
		if i.Interfaces[n].Name == "nic0" {
			return &i.Interfaces[n]
		}
	}
	if len(i.Interfaces) > 0 {
		return &i.Interfaces[0]
	}
	return nil
}

// value returns what controllers know of an instance. An alias that cannot be read is
// left out.
func (i *instance) value() cloud.Instance {
	v := cloud.Instance{Name: i.Name}
	d := i.first()
	if d == nil {
		v.Problem = "the instance " + i.Name + " has no network interface; re-create it with one"
		return v
	}
	v.Version = d.Fingerprint
	for _, a := range d.Aliases {
		if r, err := readRange(a.Range); err == nil {
			v.Aliases = append(v.Aliases, cloud.Alias{Range: r, From: a.From})
		}
	}
	v.IPv6 = d.podRange()
	return v
}

// readRange reads a range, or a single address.
func readRange(text string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(text); err == nil {
		return a.Prefix(a.BitLen())
	}
	p, err := netip.ParsePrefix(text)
	return p.Masked(), err
}

// ipv6Bits is the length of an instance's IPv6 range for pods: the first part of the /96
// that the interface has.
const ipv6Bits = 112

// podRange returns the IPv6 range for pods, if there is one.
func (d *netDevice) podRange() netip.Prefix {
	text := d.IPv6
	if text == "" && d.IPv6Access == "EXTERNAL" && len(d.IPv6Public) > 0 {
		text = d.IPv6Public[0].Address
	}
	a, err := netip.ParseAddr(text)
	if err != nil || !a.Is6() || a.Is4In6() || a.Zone() != "" {
		return netip.Prefix{}
	}
	p, _ := a.Prefix(ipv6Bits) // no address is shorter
	return p
}
