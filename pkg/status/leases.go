package status

import (
	"encoding/json"
	"net/netip"
	"time"
)

// Leases are the network's config and its leases.
type Leases struct {
	// Config is the config with its defaults, without keys that tulle does not have.
	Config json.RawMessage `json:"config,omitempty"`
	Leases []LeaseEntry    `json:"leases"`
}

// LeaseEntry is one lease in the store.
type LeaseEntry struct {
	Key   string     `json:"key"`
	State LeaseState `json:"state"`
	// Code and Why are why it is rejected; Code is one of subnet.RejectionCodes.
	Code      string         `json:"code,omitempty"`
	Why       string         `json:"why,omitempty"`
	Subnets   []netip.Prefix `json:"subnets,omitempty"`
	Name      string         `json:"nodeName,omitempty"`
	NodeID    string         `json:"nodeID,omitempty"`
	Addresses []netip.Addr   `json:"addresses,omitempty"`
	Backend   string         `json:"backend,omitempty"`
	MTU       int            `json:"mtu,omitempty"`
	Expires   *time.Time     `json:"expires,omitempty"` // nil is never
}

// LeaseState is what a node makes of a lease.
type LeaseState string

// The states of leases.
const (
	LeaseAccepted LeaseState = "accepted"
	LeaseReserved LeaseState = "reservation" // accepted, and never expires
	LeaseRejected LeaseState = "rejected"
)

// LeaseStates lists all states.
func LeaseStates() []LeaseState { return []LeaseState{LeaseAccepted, LeaseReserved, LeaseRejected} }
