package daemon

import (
	"cmp"
	"errors"
	"os"
	"sync"

	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/pkg/options"
	"github.com/tulle-net/tulle/pkg/wgkey"
)

// flannelKeyVariable names flannel's key file, and flannelKeyFile is its default.
const (
	flannelKeyVariable = "WIREGUARD_KEY_FILE"
	flannelKeyFile     = "/run/flannel/wgkey"
)

// wireguardKeys has the secrets of WireGuard. It reads, takes over or makes the node's
// key when a backend first needs it, so that other nodes have no key file.
type wireguardKeys struct {
	wgkey.Ring
	dir          string
	node         string // the node's ID
	predecessors []string

	mu    sync.Mutex
	known map[string]netstate.PublicKey // by instance
}

func newWireGuardKeys(dir, node string) *wireguardKeys {
	k := &wireguardKeys{dir: dir, node: node, known: make(map[string]netstate.PublicKey)}
	if path := os.Getenv(flannelKeyVariable); path != "" {
		k.predecessors = append(k.predecessors, path)
	}
	k.predecessors = append(k.predecessors, flannelKeyFile)
	return k
}

// key returns the public key of an instance of this node. Where the instance has no
// name, as in Kubernetes, the node's ID distinguishes the node from its copies.
func (k *wireguardKeys) key(instance string) (netstate.PublicKey, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	instance = cmp.Or(instance, k.node)
	if key, ok := k.known[instance]; ok {
		return key, nil
	}
	if k.dir == "" {
		return netstate.PublicKey{}, errors.New("the node's WireGuard key needs a folder: set " + options.Name("state-dir"))
	}
	private, err := wgkey.Open(wgkey.Path(k.dir), instance, k.predecessors...)
	if err != nil {
		return netstate.PublicKey{}, err
	}
	k.known[instance] = k.Add(private)
	return k.known[instance], nil
}

// addPSK adds the network's preshared key.
func (k *wireguardKeys) addPSK(text string) error {
	_, err := k.AddPSK(text)
	return err
}
