package kernel

import (
	"testing"

	"github.com/tulle-net/tulle/pkg/netstate"
)

func TestEveryKindOfTunnelCanBeMade(t *testing.T) {
	for kind, tunnel := range netstate.Tunnels() {
		var w writer
		if made := w.newLink(netstate.Link{Name: "tulle.x", Kind: kind}, 0, 1); made == tunnel.UserSpace {
			t.Errorf("%s is made: %t", kind, made)
		}
	}
	var w writer
	if w.newLink(netstate.Link{Name: "tulle.x", Kind: "bridge"}, 0, 1) {
		t.Error("a bridge is made")
	}
}
