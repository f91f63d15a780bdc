package etcd

import (
	"errors"
	"slices"

	"github.com/tulle-net/tulle/subnet"
)

func without(leases []subnet.Lease, key string) []subnet.Lease {
	return slices.DeleteFunc(leases, func(l subnet.Lease) bool { return l.Key() == key })
}

// sharesAddress reports whether both publish one public IP.
func sharesAddress(a, b *subnet.Attrs) bool {
	for f, ip := range a.PublicIP {
		if ip.IsValid() && ip == b.PublicIP[f] {
			return true
		}
	}
	return false
}

func asLeaseError(key string, err error) *subnet.LeaseError {
	var bad *subnet.LeaseError
	if errors.As(err, &bad) {
		return bad
	}
	return &subnet.LeaseError{Key: key, Err: err}
}
