package identity

import "github.com/tulle-net/tulle/subnet"

// Keys returns the keys by which hosts ask whether n lives: what n publishes, and
// what an earlier installation on its host published under the same ID. They are
// empty for a node that publishes neither.
func Keys(n subnet.Node) (keys []string) {
	if n.Instance != "" {
		keys = append(keys, "instance "+n.Instance)
	}
	if n.ID == "" {
		return keys
	}
	keys = append(keys, "ID "+n.ID)
	if shared := subnet.SharedID(n.ID); shared != n.ID {
		keys = append(keys, "ID "+shared)
	}
	return keys
}
