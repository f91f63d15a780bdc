package daemon

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/tulle-net/tulle/pkg/options"
	"github.com/tulle-net/tulle/subnet"
)

// machineIDFile holds what lasts as long as the machine's installation does.
const machineIDFile = "/etc/machine-id"

// identify says who this node is: what was told, or else what the machine says
// of itself. Its ID is what its subnet is known by; without one two nodes could
// not tell whose a lease is.
func identify(o options.Node) (subnet.Node, error) {
	n := subnet.Node{ID: o.ID, Name: o.Name}
	if n.ID == "" {
		text, err := os.ReadFile(machineIDFile)
		id := strings.TrimSpace(string(text))
		if err == nil && (id == "" || id == "uninitialized") {
			err = errors.New("it is empty")
		}
		if err != nil {
			return n, fmt.Errorf("cannot tell this machine from others by %s: %w; run systemd-machine-id-setup, or give each node a lasting --node-id of its own", machineIDFile, err)
		}
		n.ID = published(id)
	}
	if n.Name == "" {
		var err error
		if n.Name, err = os.Hostname(); err != nil {
			return n, fmt.Errorf("the host has no name: %w; give --node-name", err)
		}
	}
	if err := (subnet.Attrs{Node: n}).Validate(); err != nil {
		return n, fmt.Errorf("--node-id and --node-name: %w", err)
	}
	return n, nil
}

// published is what a machine's ID is to others, who are not to know it.
func published(machineID string) string {
	mac := hmac.New(sha256.New, []byte(machineID))
	mac.Write([]byte("tulle node"))
	return hex.EncodeToString(mac.Sum(nil)[:16])
}
