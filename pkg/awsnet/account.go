package awsnet

import "net/netip"

// Account is what a complete reading of AWS found: everything in the cluster's VPC, and
// everything with the tag of Owner.Tag. A reading that failed is no Account.
type Account struct {
	Found []Found
	// Holders are network interfaces in the VPC that are not part of Found. They keep
	// subnets, groups and gateways from being deleted.
	Holders []Holder
}

// Found is one object of an Account.
type Found struct {
	// ID is the ID or ARN that AWS gave the object, or of a part the ID of the
	// association or the rule. A Route has the ID of its table and its destination:
	// rtb-1/0.0.0.0/0. A Route to the addresses of a service, through an endpoint, is
	// Fixed and has a zero destination.
	ID string
	// Object has IDs in its Refs, and an empty Name.
	Object Object
	Tags   map[string]string
	State  State
	// Why is the reason of Failed in AWS's words.
	Why   string
	Given Given
	// Fixed is set for what belongs to AWS: the main route table, local and propagated
	// routes, and the group called default. It is never deleted by itself.
	Fixed bool
}

// Given is what AWS chose for an object. It is never compared.
type Given struct {
	// Address is the public address of an Address, a NATGateway or a Bastion, and Private
	// the address of a Bastion in the VPC.
	Address, Private netip.Addr
	// Block is the block of IPv6 of a Block, of whatever pool.
	Block netip.Prefix
	// Host is the DNS name of a Balancer.
	Host string
	// UsedBy is the ID of the object that an Address is associated with, or "".
	UsedBy string
}

// State is the state of an object: whether it can be used.
type State string

// The states. An Account does not contain objects that are Gone. A reading of single objects may.
const (
	Usable   State = ""
	Pending  State = "pending"
	Failed   State = "failed"
	Deleting State = "deleting"
	Gone     State = "gone"
)

// Holder is a network interface, and the object that it belongs to.
type Holder struct {
	ID, VPC, Subnet string
	Groups          []string
	// Description, Requester and Instance name that object, in AWS's words.
	Description, Requester, Instance string
	// Tags are those of the balancer or the instance that it belongs to, if the reading
	// knows them, or else its own.
	Tags map[string]string
	// Public is set if the interface has a public address, which keeps an internet
	// gateway attached.
	Public bool
}
