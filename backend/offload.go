package backend

import (
	"fmt"

	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/subnet"
)

// Offload is a config's setting for inner checksums: whether tunnel devices leave
// their computation to the host's interface, as they do by default. Some interfaces
// compute wrong ones, and the receiving hosts then drop the packets.
type Offload string

// The valid words. With OffloadAuto, the devices of a host without the defect stay as
// the kernel or a person has set them.
const (
	OffloadAuto Offload = "auto"
	OffloadOn   Offload = "on"
	OffloadOff  Offload = "off"
)

// Check rejects other words with *subnet.ConfigError.
func (o Offload) Check() error {
	switch o {
	case OffloadAuto, OffloadOn, OffloadOff:
		return nil
	}
	return &subnet.ConfigError{
		Key: "Backend.Offload", Value: fmt.Sprintf("%.80q", string(o)), Why: "unknown value",
		Fix: `set it to "on", "off" or "auto", or leave it out for auto`,
	}
}

// Checksums is what is known of the checksums that a host's interface puts into
// tunnels.
type Checksums int

// What may be known.
const (
	ChecksumsSound   Checksums = iota // nothing speaks against them
	ChecksumsBroken                   // only packets without one arrived
	ChecksumsOnTrial                  // they were broken, and are tried again for a moment
)

// setting returns the checksum setting that a device of h needs, if any.
func (o Offload) setting(h HostFacts, link string) []netstate.Object {
	switch {
	case o != OffloadAuto:
	case h.Checksums == ChecksumsBroken:
		o = OffloadOff
	case h.Checksums == ChecksumsOnTrial:
		o = OffloadOn
	default:
		return nil
	}
	return []netstate.Object{netstate.TxChecksum(link, string(o))}
}
