package kernel

import (
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/tulle-net/tulle/pkg/netstate"
)

func TestEveryKindOfTunnelCanBeMade(t *testing.T) {
	for kind, tunnel := range netstate.Tunnels() {
		if tunnel.UserSpace {
			continue
		}
		d := deviceOf(netstate.Link{Name: "tulle.x", Kind: kind}, netlink.NewLinkAttrs(), 0)
		if d == nil || d.Type() != kind {
			t.Errorf("%s makes %v", kind, d)
		}
	}
	if d := deviceOf(netstate.Link{Name: "tulle.x", Kind: "bridge"}, netlink.NewLinkAttrs(), 0); d != nil {
		t.Errorf("a bridge is made: %v", d)
	}
}
