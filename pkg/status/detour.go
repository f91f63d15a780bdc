package status

import (
	"fmt"
	"strings"
)

// Detours are the reasons why packets to a peer take the tunnel, with the backend cloud.
const (
	DetourWaiting     = "waiting"     // the notices of routes are not read yet
	DetourSender      = "sender"      // no controller says that this node's instance may send without the tunnel
	DetourUnannounced = "unannounced" // no controller says anything of this peer's routes
	DetourNetwork     = "network"     // the peer is in another network
	DetourNoRoute     = "no-route"    // its subnet is not routed in all tables, as where one is full
	DetourVetoed      = "vetoed"      // its route does not carry packets
	DetourUplink      = "uplink"      // this host has no default route through a router
)

// Detours returns all reasons.
func Detours() []string {
	return []string{DetourWaiting, DetourSender, DetourUnannounced, DetourNetwork, DetourNoRoute, DetourVetoed, DetourUplink}
}

// detours returns how many peers are reached through the tunnel, by reason, or "" for
// none.
func (w writer) detours(c Count) string {
	all, reasons := 0, []string(nil)
	for _, reason := range Detours() {
		if n := c.Tunnelled[reason]; n > 0 {
			all += n
			reasons = append(reasons, fmt.Sprintf("%s %d", reason, n))
		}
	}
	if all == 0 {
		return ""
	}
	return fmt.Sprintf("%d through the tunnel: %s (%s)", all, strings.Join(reasons, ", "), w.see("peers"))
}
