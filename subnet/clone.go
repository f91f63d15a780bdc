package subnet

import (
	"fmt"
	"strings"
)

// cloneMark separates the ID that copies of one machine share from the suffix of one
// of them.
const cloneMark = "~"

// suffixLen is the length of that suffix, in hexadecimal digits.
const suffixLen = 16

// MaxSharedID is the length of the longest ID that has room for a suffix.
const MaxSharedID = maxName - len(cloneMark) - suffixLen

// CloneID returns the ID of a copy of the machine that id names. The suffix is
// 16 hexadecimal digits.
func CloneID(id, suffix string) string { return id + cloneMark + suffix }

// SharedID returns the ID that a copy of a machine shares with it: what was passed to
// CloneID, or id itself if CloneID did not make it.
func SharedID(id string) string {
	if len(id) < len(cloneMark)+suffixLen {
		return id
	}
	shared, suffix := id[:len(id)-len(cloneMark)-suffixLen], id[len(id)-suffixLen:]
	if shared == "" || id[len(shared):len(shared)+len(cloneMark)] != cloneMark || strings.Trim(suffix, "0123456789abcdef") != "" {
		return id
	}
	return shared
}

// TwinError is the lease of another machine under the claiming node's ID. It
// wraps ErrSameID.
type TwinError struct {
	Lease Lease
	// Copied reports that the two have one Instance as well.
	Copied bool
}

func (e *TwinError) Error() string {
	return fmt.Sprintf("%v: %s holds %s under it", ErrSameID, e.Lease.Holder(), e.Lease.Key())
}

func (e *TwinError) Unwrap() error { return ErrSameID }

// Holder returns, for people, the node that published a and its addresses.
func (a Attrs) Holder() string {
	var addresses []string
	for _, ip := range a.PublicIP {
		if ip.IsValid() {
			addresses = append(addresses, ip.String())
		}
	}
	name := a.Node.Name
	if name == "" {
		name = a.Node.ID
	}
	switch {
	case len(addresses) == 0:
		return name
	case name == "":
		return strings.Join(addresses, ", ")
	}
	return name + " (" + strings.Join(addresses, ", ") + ")"
}

// isTwin reports whether another machine holds l under the claiming node's ID. A
// node without an Instance knows no other machine of its ID.
func (c Claim) isTwin(l Lease) bool {
	return c.Node.Instance != "" && c.Node.ID != "" && l.Node.ID == c.Node.ID && !c.Owns(l)
}

// Twin returns the lease for which the claiming node must give up its ID, or nil.
// Own is the node's own lease, or nil.
//
// A node with a lease yields the ID to every other lease under it, dead or alive,
// unless the node published that ID first. A node without a lease yields to a live
// holder, and inherits the leases of dead ones. Of two nodes that published one ID
// at the same time, the one with the older lease keeps it. A holder without an
// Instance always keeps it, because an older tulled cannot yield.
func (c Claim) Twin(own *Lease, leases []Lease, lives func(Lease) (bool, error)) (twin *Lease, inherited []Lease, err error) {
	first := own != nil && own.Node.ID == c.Node.ID && own.Node.Instance == c.Node.Instance
	for i := range leases {
		l := &leases[i]
		if !c.isTwin(*l) || first && l.Node.Instance != "" && compareRank(own, l) < 0 {
			continue
		}
		alive := own != nil
		if !alive {
			if alive, err = lives(*l); err != nil {
				return nil, nil, err
			}
		}
		if alive {
			return l, nil, nil
		}
		inherited = append(inherited, *l)
	}
	return nil, inherited, nil
}
