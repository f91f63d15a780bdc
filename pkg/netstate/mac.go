package netstate

import (
	"fmt"
	"net"
)

// MAC is a 48-bit hardware address that can be compared and used in keys.
type MAC [6]byte

// ParseMAC reads "3a:00:00:00:00:01" and the other common spellings.
func ParseMAC(s string) (MAC, error) {
	hw, err := net.ParseMAC(s)
	if err != nil {
		return MAC{}, err
	}
	if len(hw) != len(MAC{}) {
		return MAC{}, fmt.Errorf("address %s: want 6 bytes, not %d", s, len(hw))
	}
	return MAC(hw), nil
}

// IsZero reports whether m is unset.
func (m MAC) IsZero() bool { return m == MAC{} }

func (m MAC) String() string { return net.HardwareAddr(m[:]).String() }
