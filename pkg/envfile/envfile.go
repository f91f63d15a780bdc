package envfile

import (
	"fmt"
	"net/netip"

	"github.com/tulle-net/tulle/subnet"
)

// Env is what the file says. A family that is off is the zero Prefix.
type Env struct {
	Networks subnet.Pair[netip.Prefix]
	// Subnets are the host's own, each with its first address, which is the
	// gateway of the host's containers: 10.5.34.1/24.
	Subnets subnet.Pair[netip.Prefix]
	MTU     int
	IPMasq  bool
}

// The variables, as flannel names them.
var (
	networkKeys = subnet.Pair[string]{"FLANNEL_NETWORK", "FLANNEL_IPV6_NETWORK"}
	subnetKeys  = subnet.Pair[string]{"FLANNEL_SUBNET", "FLANNEL_IPV6_SUBNET"}
)

const (
	mtuKey    = "FLANNEL_MTU"
	ipMasqKey = "FLANNEL_IPMASQ"
)

// Of is what to write on the host that holds own.
func Of(cfg subnet.Config, own subnet.Lease, mtu int, ipMasq bool) Env {
	e := Env{MTU: mtu, IPMasq: ipMasq}
	for f, s := range own.Subnets {
		if s.IsValid() {
			e.Networks[f] = cfg.Pools[f].Network
			e.Subnets[f] = netip.PrefixFrom(s.Masked().Addr().Next(), s.Bits())
		}
	}
	return e
}

// Want are the subnets to ask for again in a network of this config, which may
// have changed since the file was written: what it does not lease any more is
// left out.
func (e Env) Want(cfg subnet.Config) subnet.Pair[netip.Prefix] {
	var want subnet.Pair[netip.Prefix]
	for f, s := range e.Subnets {
		if s = s.Masked(); cfg.Pools[f].Has(s) {
			want[f] = s
		}
	}
	return want
}

// Format writes the file byte for byte as flannel does.
func Format(e Env) []byte {
	var text []byte
	for f := range subnet.Families {
		if e.Networks[f].IsValid() {
			text = fmt.Appendf(text, "%s=%s\n", networkKeys[f], e.Networks[f])
		}
		if e.Subnets[f].IsValid() {
			text = fmt.Appendf(text, "%s=%s\n", subnetKeys[f], e.Subnets[f])
		}
	}
	return fmt.Appendf(text, "%s=%d\n%s=%t\n", mtuKey, e.MTU, ipMasqKey, e.IPMasq)
}
