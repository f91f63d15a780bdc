package daemon

import (
	"os"

	"github.com/tulle-net/tulle/pkg/options"
	"github.com/tulle-net/tulle/pkg/wgkey"
)

// flannelKeyVariable names flannel's key file, and flannelKeyFile is its default.
const (
	flannelKeyVariable = "WIREGUARD_KEY_FILE"
	flannelKeyFile     = "/run/flannel/wgkey"
)

// newWireGuardKeys returns the WireGuard keys of the node with this ID.
func newWireGuardKeys(dir, node string) *wgkey.Store {
	var predecessors []string
	if path := os.Getenv(flannelKeyVariable); path != "" {
		predecessors = append(predecessors, path)
	}
	return wgkey.NewStore(dir, options.Name("state-dir"), node, append(predecessors, flannelKeyFile)...)
}
