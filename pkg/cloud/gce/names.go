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
	// longestPrefix is how much of the cluster's name the names of routes begin with, as
	// Google's own controller writes them.
	longestPrefix = 26
	// hashed is how much of the hash of a longer name its short form has.
	hashed = 8
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

// prefix returns what the names of the cluster's routes begin with. A name that is too long
// ends in a hash: two clusters must not share a prefix.
func (c *Client) prefix() string {
	name := c.options.Cluster
	if len(name) > longestPrefix {
		sum := sha256.Sum256([]byte(name))
		name = name[:longestPrefix-hashed-1] + "-" + hex.EncodeToString(sum[:hashed/2])
	}
	return name + "-"
}

// theirPrefix returns what the names of the cluster's routes begin with that Google's own
// controller wrote. It cuts a long name.
func (c *Client) theirPrefix() string {
	return c.options.Cluster[:min(len(c.options.Cluster), longestPrefix)] + "-"
}

// isMarked reports whether a route has the mark of the cluster's routes, or of those that
// Google's own controller wrote for it.
func (c *Client) isMarked(r *route) bool {
	named := strings.HasPrefix(r.Name, c.prefix()) || strings.HasPrefix(r.Name, c.theirPrefix())
	return c.options.Cluster != "" && r.Description == mark && named && len(r.Tags) == 0 && r.Instance != ""
}

// routeName returns the name of a route of ours. It differs for each target and priority,
// so that two routes to one destination can exist for a moment.
func (c *Client) routeName(network string, to netip.Prefix, instance string, priority int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %s %s %d", network, to, instance, priority))
	return c.prefix() + hex.EncodeToString(sum[:16])
}
