package cloud

import (
	"net/netip"
	"time"

	"github.com/tulle-net/tulle/subnet"
)

// State is the state of an instance.
type State string

// The states.
const (
	// Absent is the state of an instance that is missing from a complete, successful
	// answer. The cloud may not show a new instance yet, and forgets a terminated one
	// after an hour.
	Absent State = "absent"
	// Starting is the state of an instance that does not run yet.
	Starting State = "starting"
	Running  State = "running"
	Stopping State = "stopping"
	// Stopped is the state of an instance that can be started again.
	Stopped     State = "stopped"
	Terminating State = "terminating"
	// Terminated is the state of an instance that never runs again.
	Terminated State = "terminated"
)

// IsShutDown reports whether an instance in this state runs no pods now, but may be
// started again.
func (s State) IsShutDown() bool { return s == Stopped }

// IsGone reports whether an instance in this state never runs again. It returns false for
// Absent, because the cloud may not show a new instance yet.
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
	// Problem is why there is no description of the instance, with the fix. Then all other
	// fields except State and ProviderID are empty. State is Absent if the cloud answered
	// that the instance does not exist. It is empty if the client sent no request, because
	// the ID is malformed, or is not of this cloud, account or project.
	Problem string
	// ID is the cloud's own ID of the machine, and Name its name.
	ID, Name string
	// ProviderID is the ID in the format of a Node's providerID.
	ProviderID string
	State      State
	// Type is the kind of machine, like m5.large.
	Type string
	// Zone is the zone's name. ZoneID is the ID that is the same in every account, if the
	// cloud has such IDs.
	Zone, ZoneID, Region string
	// Account is the ID of the instance's account.
	Account string
	// Network is the ID of the cloud's network to which the primary interface belongs.
	Network string
	// Addresses are those for the Node's status, in the order of the cloud's own
	// controller.
	Addresses []Address
	// Interface is the ID of the primary network interface.
	Interface string
	// NextHops are the private addresses to which routes to the instance lead. They are
	// zero in a cloud whose routes lead to interfaces.
	NextHops subnet.Pair[netip.Addr]
	// Groups are the IDs of the primary interface's security groups, in order.
	Groups []string
	// Forwards is set if the cloud lets the instance send and receive packets whose
	// addresses are not its own, as routes to it require.
	Forwards bool
	// ForwardFix is what people must do so that the instance forwards, where this program
	// cannot change that. It is empty if the instance forwards.
	ForwardFix string
	// Launched is the time of the instance's last start.
	Launched time.Time

	// Version identifies the state of the network interface. A Change needs it for its
	// precondition.
	Version string
	// Aliases are the ranges that the cloud routes to the first network interface, in
	// the cloud's order.
	Aliases []Alias
	// IPv6 is the range of IPv6 addresses for pods, if the interface has one.
	IPv6 netip.Prefix
}
