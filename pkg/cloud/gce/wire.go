package gce

import (
	"fmt"
	"net/netip"

	"github.com/tulle-net/tulle/pkg/cloud"
)

// fieldsOfInstance are the fields that requests ask for.
const fieldsOfInstance = "name,status,machineType,canIpForward,lastStartTimestamp,networkInterfaces(name,network,networkIP,accessConfigs(natIP)," +
	"fingerprint,aliasIpRanges,ipv6Address,ipv6AccessType,ipv6AccessConfigs(externalIpv6))"

// instance has the fields of an instance that matter, with the API's names.
type instance struct {
	Name       string      `json:"name"`
	Status     string      `json:"status"`
	Type       string      `json:"machineType"`
	Forwards   bool        `json:"canIpForward"`
	Started    string      `json:"lastStartTimestamp"`
	Interfaces []netDevice `json:"networkInterfaces"`
}

// netDevice is a network interface, in answers and in a PATCH.
type netDevice struct {
	Name        string  `json:"name,omitempty"`
	Fingerprint string  `json:"fingerprint,omitempty"`
	Aliases     []alias `json:"aliasIpRanges"`

	Network string       `json:"network,omitempty"`
	IP      string       `json:"networkIP,omitempty"`
	Public  []ipv4Access `json:"accessConfigs,omitempty"`

	IPv6       string       `json:"ipv6Address,omitempty"`
	IPv6Access string       `json:"ipv6AccessType,omitempty"`
	IPv6Public []ipv6Access `json:"ipv6AccessConfigs,omitempty"`
}

type alias struct {
	Range string `json:"ipCidrRange"`
	From  string `json:"subnetworkRangeName,omitempty"`
}

type ipv4Access struct {
	IP string `json:"natIP"`
}

type ipv6Access struct {
	Address string `json:"externalIpv6"`
}

// instances is a page of a list of a zone's instances, or a part of one of all zones.
type instances struct {
	list
	Items []instance `json:"items"`
	Next  string     `json:"nextPageToken"`
}

// zones is a page of a list of the instances of all zones.
type zones struct {
	list
	Items map[string]struct {
		Instances []instance `json:"instances"`
		Warning   warning    `json:"warning"`
	} `json:"items"`
	Next        string   `json:"nextPageToken"`
	Unreachable []string `json:"unreachables"`
}

// list is what all lists have.
type list struct {
	Kind    string  `json:"kind"`
	Warning warning `json:"warning"`
}

// check returns an error if an answer is not a list of a kind. Such an answer says nothing
// about what it lacks.
func (l list) check(action, kind string) error {
	if l.Kind != kind {
		return &cloud.Error{Kind: cloud.Unavailable, Action: action, Text: fmt.Sprintf("the answer is of the kind %.60q, and not %q; check the API's endpoint", l.Kind, kind)}
	}
	return nil
}

// warning is why an answer may be less than all.
type warning struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// isComplete reports whether an answer with this warning has all.
func (w warning) isComplete() bool { return w.Code == "" || w.Code == "NO_RESULTS_ON_PAGE" }

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

// address6 returns the interface's address of IPv6, or "".
func (d *netDevice) address6() string {
	if d.IPv6 == "" && d.IPv6Access == "EXTERNAL" && len(d.IPv6Public) > 0 {
		return d.IPv6Public[0].Address
	}
	return d.IPv6
}

// podRange returns the IPv6 range for pods, if there is one.
func (d *netDevice) podRange() netip.Prefix {
	a, err := netip.ParseAddr(d.address6())
	if err != nil || !a.Is6() || a.Is4In6() || a.Zone() != "" {
		return netip.Prefix{}
	}
	p, _ := a.Prefix(ipv6Bits) // no address is shorter
	return p
}
