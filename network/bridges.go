package network

import (
	"fmt"
	"net/netip"
	"strings"

	"k8s.io/klog/v2"

	"github.com/tulle-net/tulle/pkg/hostif"
	"github.com/tulle-net/tulle/subnet"
)

// bridgeFixes has the bridges that containers usually join, and the commands that give
// each an address of this node's subnet.
var bridgeFixes = map[string]string{
	"cni0":    "with the daemon's CNI configuration, the next container corrects it; otherwise, once no container uses it: ip link delete cni0",
	"docker0": "start docker with the env file's values: dockerd --bip=$FLANNEL_SUBNET --mtu=$FLANNEL_MTU",
}

// checkBridges checks whether the containers' bridges have addresses of this node's
// subnet. A bridge with an address of an earlier subnet cuts its containers off, and
// no other check reports it. A bridge outside the network is only logged.
func (a *Agent) checkBridges() {
	var wrong, strange []string
	for _, b := range a.host.Bridges {
		for _, f := range subnet.Families {
			switch at := misplaced(b, f, a.own.Subnets[f]); {
			case !at.IsValid():
			case a.config.Pools[f].Network.Contains(at.Addr()):
				wrong = append(wrong, fmt.Sprintf("%s has %s, which is outside this node's subnet %s; %s", b.Name, at, a.own.Subnets[f], bridgeFixes[b.Name]))
			default:
				strange = append(strange, b.Name+" has "+at.String())
			}
		}
	}
	if len(wrong) == 0 {
		if a.stopWaiting(onBridge) {
			klog.InfoS("Container bridges match this node's subnet again")
		}
	} else if text := strings.Join(wrong, "; "); a.await(onBridge, text) {
		klog.ErrorS(nil, "Container bridge has an address of another subnet; its containers are unreachable", "fix", text)
	}
	if text := strings.Join(strange, ", "); text != a.foreignBridges {
		a.foreignBridges = text
		if text != "" {
			klog.InfoS("Container bridge is outside the network, and so are its containers", "bridges", text, "fix", bridgeFixes["docker0"])
		}
	}
}

// misplaced returns an address of family f of a bridge that has one, but none in own.
func misplaced(b hostif.Bridge, f subnet.Family, own netip.Prefix) (at netip.Prefix) {
	for _, p := range b.Addrs {
		switch {
		case !own.IsValid() || subnet.FamilyOf(p.Addr()) != f || p.Addr().IsLinkLocalUnicast():
		case own.Contains(p.Addr()):
			return netip.Prefix{}
		default:
			at = p
		}
	}
	return at
}
