package etcd

import (
	"errors"
	"slices"

	"github.com/tulle-net/tulle/subnet"
)

// without returns the leases other than key's, and leaves the slice as it is.
func without(leases []subnet.Lease, key string) []subnet.Lease {
	i := slices.IndexFunc(leases, func(l subnet.Lease) bool { return l.Key() == key })
	if i < 0 {
		return leases
	}
	return slices.Concat(leases[:i], leases[i+1:])
}

func asLeaseError(key string, err error) *subnet.LeaseError {
	var bad *subnet.LeaseError
	if errors.As(err, &bad) {
		return bad
	}
	return &subnet.LeaseError{Key: key, Err: err}
}
