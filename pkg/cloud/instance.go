package cloud

import (
	"net/netip"
	"time"

	"github.com/tulle-net/tulle/subnet"
)

// State is what an instance is doing.
type State string

// The states.
const (
	// Absent is an instance that a complete, successful answer did not contain. The cloud
	// may not show a new instance yet, and forgets a terminated one after an hour.
	Absent State = "absent"
	// Starting is an instance that does not run yet.
	Starting State = "starting"
	Running  State = "running"
	Stopping State = "stopping"
	// Stopped is an instance that can be started again.
	Stopped     State = "stopped"
	Terminating State = "terminating"
	// Terminated is an instance that never runs again.
	Terminated State = "terminated"
)

// IsShutDown reports whether an instance in this state runs no pods, and may run some
// again later.
func (s State) IsShutDown() bool { return s == Stopped }

// IsGone reports whether an instance in this state never runs again. An absent one may be
// too new to be shown.
func (s State) IsGone() bool { return s == Terminating || s == Terminated }

// AddressType is a type of a Node's address.
type AddressType string

// The types, in the words of Kubernetes.
const (
	InternalIP  AddressType = "InternalIP"
	ExternalIP  AddressType = "ExternalIP"
	InternalDNS AddressType = "InternalDNS"
	ExternalDNS AddressType = "ExternalDNS"
	Hostname    AddressType = "Hostname"
)

// Address is an address of an instance, as a Node's status has it.
type Address struct {
	Type  AddressType
	Value string
}

// Instance is the machine of a Node, as its cloud describes it.
type Instance struct {
	// Problem is why the cloud describes no instance, with the fix. The other fields but
	// State and ProviderID are empty then. State is Absent if the cloud answered that
	// there is no such instance, and empty if the cloud was not asked: the ID is
	// malformed, or is not of this cloud, account or project.
	Problem string
	// ID is the cloud's own ID of the machine, and Name its name.
	ID, Name string
	// ProviderID is the ID as a Node's providerID has it.
	ProviderID string
	State      State
	// Type is the kind of machine, like m5.large.
	Type string
	// Zone is the zone's name, and ZoneID the ID that is the same in every account, where
	// the cloud has one.
	Zone, ZoneID, Region string
	// Account is the ID of the account that the instance is of.
	Account string
	// Network is the ID of the cloud's network that the primary interface is in.
	Network string
	// Addresses are those for the Node's status, in the order of the cloud's own
	// controller.
	Addresses []Address
	// Interface is the ID of the primary network interface.
	Interface string
	// NextHops are the private addresses that routes to the instance lead to, where a
	// cloud's routes lead to addresses. Elsewhere there are none.
	NextHops subnet.Pair[netip.Addr]
	// Groups are the IDs of the primary interface's security groups, in order.
	Groups []string
	// Forwards is set if the cloud lets the instance send and receive packets whose
	// addresses are not its own, as routes to it require.
	Forwards bool
	// Launched is when the instance was started last.
	Launched time.Time

	// Version is the state of the network interface, for the precondition of a Change.
	Version string
	// Aliases are the ranges that the cloud routes to the first network interface, in
	// the cloud's order.
	Aliases []Alias
	// IPv6 is the range of IPv6 addresses for pods, if the interface has one.
	IPv6 netip.Prefix
}
