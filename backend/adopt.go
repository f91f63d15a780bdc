package backend

import (
	"strings"

	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/subnet"
)

// Adopt looks among the host's tunnels for a device to use in place of want, which
// claims the same tunnel of the kernel. That is a fitting device of any name, or one
// that flannel made or an earlier run adopted, which may be re-created. It returns
// want with what stays of the device: its name, so that no settings by name are lost,
// and its MAC, so that no peer has to learn another.
func (h HostFacts) Adopt(f subnet.Family, want netstate.Link, same func(netstate.Link) bool) netstate.Link {
	for _, t := range h.Tunnels {
		if t.Name == want.Name || t.Kind != want.Kind || !same(t) {
			continue
		}
		adopted := want
		adopted.Name, adopted.MAC = t.Name, t.MAC
		if t.Lower == h.Uplinks[f].Link {
			adopted.Lower = t.Lower // it sends through the same link
		}
		if t.CanBecome(adopted) || strings.HasPrefix(t.Name, "flannel") || t.Group == netstate.Mark {
			return adopted
		}
	}
	return want
}
