// Package cloud describes a cloud's instances, route tables and load balancers as values that
// are the same for every cloud. The client of each cloud is a folder below it. Each controller
// declares the interface that it needs of a client; package cloudtest has fakes.
//
// Methods take batches: one call for all instances of a cluster costs a few requests to the
// cloud's API. A call for each instance would cost thousands.
package cloud

import "net/netip"

// Alias is an address range that a cloud routes to an instance.
type Alias struct {
	Range netip.Prefix
	// From names the secondary range of the subnetwork that it was taken from. It is empty
	// for the primary range.
	From string
}

// Change adds an alias to an instance.
type Change struct {
	// ID is the instance, as a Node's providerID has it.
	ID string
	// Version is the state of the interface that the change requires. The cloud refuses
	// the change if the interface has changed since.
	Version string
	Add     Alias
	// Request is a UUID that identifies the change: the cloud makes it at most once,
	// however often it is sent.
	Request string
}
