// Package cloud holds what controllers know of a cloud, its instances and its route
// tables, as values that are the same for every cloud. Each cloud is a folder below it.
// What a controller needs of one is an interface that stands at the controller; package
// cloudtest has a fake.
//
// Methods take batches: one call about all instances of a cluster costs a cloud's API a
// few requests, where a call for each instance costs thousands.
package cloud

import "net/netip"

// Alias is an address range that a cloud routes to an instance.
type Alias struct {
	Range netip.Prefix
	// From names the range of the subnetwork that it was taken from. It is empty if that
	// is the subnetwork's primary range.
	From string
}

// Change adds an alias to an instance.
type Change struct {
	// ID is the instance, as a Node's providerID has it.
	ID string
	// Version is what the interface must be like. The cloud refuses the change if the
	// interface has changed since.
	Version string
	Add     Alias
	// Request identifies the change: the cloud makes it at most once, however often it
	// is sent. It has the form of a UUID.
	Request string
}
