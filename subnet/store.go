package subnet

import "context"

// Store is where a network keeps its config and its leases.
type Store interface {
	// Config waits until there is a valid config other than known, and returns
	// it: a first one where known is the zero Config, and else a change.
	Config(ctx context.Context, known Config) (Config, error)
	// Acquire leases a subnet; the same node gets the same one again. When every
	// subnet is leased the error wraps ErrOutOfSubnets.
	Acquire(ctx context.Context, want Claim) (Lease, error)
	// Hold renews own, and writes it again when it was lost or changed, without
	// making a lease of a reservation. One without a Revision, which Acquire did
	// not just return, it looks at first. It returns only when ctx ends or, wrapping
	// ErrTaken, when another living node holds the subnet. A node holds its
	// lease once: it ends one Hold before it acquires anew.
	Hold(ctx context.Context, own Lease) error
	// Watch calls to with the complete list of leases first and after every
	// gap, and with what changed in between. It returns when ctx ends.
	Watch(ctx context.Context, to func(Update)) error
}

// Update is one message of Store.Watch. No key stands in it twice. Its leases are
// the receiver's to keep.
type Update struct {
	// Complete says that Leases and Bad are the whole list; otherwise Leases
	// were written and Gone were removed.
	Complete bool
	Leases   []Lease
	// Gone are the keys (Key) of leases that were removed.
	Gone []string
	// Bad are entries that could not be read, in the place of their leases.
	Bad []*LeaseError
}
