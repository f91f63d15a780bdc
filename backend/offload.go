package backend

import (
	"fmt"

	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/subnet"
)

// Offload is a config's word on whether tunnel devices leave it to the host's
// interface to put checksums into the packets inside the tunnel, as they do by
// themselves. There are interfaces that put in wrong ones, and hosts at the
// other end that then drop the packets.
type Offload string

// The words there are. With OffloadAuto the devices of a host that is well stay
// as the kernel or a person has them.
const (
	OffloadAuto Offload = "auto"
	OffloadOn   Offload = "on"
	OffloadOff  Offload = "off"
)

// Check refuses other words with *subnet.ConfigError.
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
