package azure

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"strings"
)

const (
	// separator stands between the node and the destination in a route's name, as Azure's
	// own controller writes it. That one takes the node from there.
	separator = "____"
	// longestRoute is how long the name of a route may be.
	longestRoute = 80
)

var stripped = strings.NewReplacer(":", "", ".", "", "/", "")

// leaseName replaces what the names of leases in etcd have and those of routes may not.
var leaseName = strings.NewReplacer(":", "", "&", "-")

// nameOf returns what the names of a node's routes begin with.
func nameOf(node string) string { return leaseName.Replace(node) }

// routeName returns the name of a node's route, which no route of the table has. A name
// that is too long for Azure is cut, and ends in a hash of all of it.
func (t *routeTable) routeName(node string, to netip.Prefix) string {
	name := nameOf(node) + separator + stripped.Replace(to.String())
	if len(name) > longestRoute {
		sum := sha256.Sum256([]byte(name))
		name = name[:longestRoute-9] + "_" + hex.EncodeToString(sum[:4])
	}
	// Two destinations may have one name: 10.1.12.0/24 and 10.11.2.0/24.
	for i, first := 2, name; t.hasName(name); i++ {
		end := fmt.Sprintf("_%d", i)
		name = first[:min(len(first), longestRoute-len(end))] + end
	}
	return name
}

// isOf reports whether a route's name is one of a node.
func isOf(name, node string) bool {
	was, _, _ := strings.Cut(name, separator)
	return strings.EqualFold(was, nameOf(node))
}
