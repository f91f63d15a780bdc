package identity

import "github.com/tulle-net/tulle/subnet"

// Keys returns the keys by which other hosts ask whether n lives: its instance, its ID, and
// the ID that it shares with its clones. It returns none for a node that publishes neither
// an instance nor an ID.
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
