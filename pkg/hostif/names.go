package hostif

import (
	"cmp"

	"github.com/tulle-net/tulle/subnet"
)

// Names are what errors and the log call the settings of a Spec, like --iface. Plain
// words stand for an empty one.
type Names struct {
	Iface, IfaceRegex, CanReach, FromNodeIP string
	PublicIP                                subnet.Pair[string]
}

// OrWords returns n with words in place of empty names.
func (n Names) OrWords() Names {
	return Names{
		Iface: cmp.Or(n.Iface, "uplink"), IfaceRegex: cmp.Or(n.IfaceRegex, "uplink regex"),
		CanReach: cmp.Or(n.CanReach, "uplink that reaches"), FromNodeIP: cmp.Or(n.FromNodeIP, "uplink from the Node's IP"),
		PublicIP: subnet.Pair[string]{cmp.Or(n.PublicIP[subnet.IPv4], "public IPv4 address"), cmp.Or(n.PublicIP[subnet.IPv6], "public IPv6 address")},
	}
}
