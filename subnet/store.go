package subnet

import "context"

// Store keeps a network's config and its leases.
type Store interface {
	// Config waits until there is a valid config other than known, and returns it.
	// With the zero Config as known, it returns the first valid one.
	Config(ctx context.Context, known Config) (Config, error)
	// Acquire leases a subnet; the same node gets the same one again. When every
	// subnet is leased, the error wraps ErrOutOfSubnets.
	Acquire(ctx context.Context, want Claim) (Lease, error)
	// Hold renews own, and writes it again if it was lost or changed. A reservation
	// stays a reservation. A lease without a Revision did not come from Acquire just
	// now: Hold reads the store before it writes.
	//
	// Hold returns only if ctx ends or, wrapping ErrTaken, if another living node
	// holds the subnet. A node runs one Hold at a time, and ends it before it calls
	// Acquire again.
	Hold(ctx context.Context, own Lease) error
	// Watch calls to with the complete list of leases at first and after every gap,
	// and with the changes in between. It returns when ctx ends.
	Watch(ctx context.Context, to func(Update)) error
}

// Update is one message of Store.Watch. It contains no key twice. Its leases belong
// to the receiver.
type Update struct {
	// Complete reports that Leases and Bad are the whole list. Otherwise Leases were
	// written and Gone were removed.
	Complete bool
	Leases   []Lease
	// Gone are the keys of leases that were removed.
	Gone []string
	// Bad are the entries that cannot be read. They are not among Leases.
	Bad []*LeaseError
}
