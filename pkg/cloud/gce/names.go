package gce

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"regexp"
	"strings"
)

const (
	// mark is the description of routes of Kubernetes, as Google's own controller writes it.
	mark = "k8s-node-route"
	// longestPrefix is how much of the cluster's name the names of routes begin with.
	longestPrefix = 26
	// usual and better are the priorities of our routes. Of two, the lower one counts.
	usual, better = 1000, 999
)

// clusterName is a name that can begin the name of a route.
var clusterName = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)

// CheckCluster returns what is wrong with the name of a cluster.
func CheckCluster(name string) error {
	if !clusterName.MatchString(name) {
		return fmt.Errorf("%.80q cannot begin the name of a route; use lower case letters, digits and dashes, and a letter first", name)
	}
	return nil
}

// prefix returns what the names of the cluster's routes begin with.
func (c *Client) prefix() string {
	return c.options.Cluster[:min(len(c.options.Cluster), longestPrefix)] + "-"
}

// isMarked reports whether a route has the mark of the cluster's routes. Google's own
// controller recognises its routes by the same mark.
func (c *Client) isMarked(r *route) bool {
	return c.options.Cluster != "" && r.Description == mark && strings.HasPrefix(r.Name, c.prefix()) && len(r.Tags) == 0 && r.Instance != ""
}

// routeName returns the name of a route of ours. It differs for each target and priority,
// so that two routes to one destination can exist for a moment.
func (c *Client) routeName(network string, to netip.Prefix, instance string, priority int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %s %s %d", network, to, instance, priority))
	return c.prefix() + hex.EncodeToString(sum[:16])
}
