package subnet

import (
	"errors"
	"fmt"
)

// The reasons why a lease is rejected, each wrapped in a *LeaseError.
var (
	// ErrKey is a key that is not a lease's.
	ErrKey = errors.New("not a lease key")
	// ErrValue is a value that cannot be read.
	ErrValue = errors.New("not a lease value")
	// ErrNoSubnet is a lease without a subnet of any family that is on.
	ErrNoSubnet = errors.New("no subnet of an enabled family")
	// ErrOutsideNetwork is a subnet that is not a part of the network.
	ErrOutsideNetwork = errors.New("outside the network")
	// ErrBackendType is a node that speaks another backend.
	ErrBackendType = errors.New("of another backend")
	// ErrPublicIP is a node that is not reachable at its public IP.
	ErrPublicIP = errors.New("unusable public IP")
	// ErrOwnSubnet is a subnet that overlaps this node's own.
	ErrOwnSubnet = errors.New("overlaps this node's own subnet")
	// ErrOverlap is a subnet that overlaps an earlier lease.
	ErrOverlap = errors.New("overlaps an earlier lease")
)

var (
	// ErrOutOfSubnets is a network with every subnet leased.
	ErrOutOfSubnets = errors.New("out of subnets")
	// ErrSameAddress is a public IP that another living node publishes.
	ErrSameAddress = errors.New("another node has this node's public IP")
	// ErrSameID is an ID that two machines use.
	ErrSameID = errors.New("another machine has this node's ID")
	// ErrTaken is a subnet that was lost to another node.
	ErrTaken = errors.New("another node holds the subnet")
)

// LeaseError is one rejected lease in the store, and why it is rejected.
type LeaseError struct {
	Key string
	Err error
}

func (e *LeaseError) Error() string { return fmt.Sprintf("lease %.100q: %v", e.Key, e.Err) }

func (e *LeaseError) Unwrap() error { return e.Err }

func keyError(key, why string) error {
	return &LeaseError{key, fmt.Errorf("%w: %s", ErrKey, why)}
}

// WaitError is a wait for the store that its context ended, and what it waited for.
type WaitError struct {
	Why   error // like a config that does not exist
	Ended error // the context's error
}

// Waited returns ended, with why the wait did not succeed, if that is known.
func Waited(why, ended error) error {
	if why == nil {
		return ended
	}
	return &WaitError{why, ended}
}

func (e *WaitError) Error() string { return e.Why.Error() }

func (e *WaitError) Unwrap() []error { return []error{e.Why, e.Ended} }
