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

// machineIDFile has an ID that lasts as long as the machine's installation.
const machineIDFile = "/etc/machine-id"

// identify returns this node's identity, from flags or from the machine itself. Its ID
// marks its lease: without one, two nodes could not tell their leases apart.
func identify(o options.Node) (subnet.Node, error) {
	n := subnet.Node{ID: o.ID, Name: o.Name}
	if n.ID == "" {
		text, err := os.ReadFile(machineIDFile)
		id := strings.TrimSpace(string(text))
		if err == nil && (id == "" || id == "uninitialized") {
			err = errors.New("it has no machine ID")
		}
		if err != nil {
			return n, fmt.Errorf("identify this machine by %s: %w; run systemd-machine-id-setup, or give each node its own lasting --node-id", machineIDFile, err)
		}
		n.ID = publicID(id)
	}
	if n.Name == "" {
		var err error
		if n.Name, err = os.Hostname(); err != nil {
			return n, fmt.Errorf("read the hostname: %w; set --node-name", err)
		}
	}
	if err := (subnet.Attrs{Node: n}).Validate(); err != nil {
		return n, fmt.Errorf("--node-id and --node-name: %w", err)
	}
	return n, nil
}

// publicID derives the ID that others see from a machine's ID, which must stay private.
func publicID(machineID string) string {
	mac := hmac.New(sha256.New, []byte(machineID))
	mac.Write([]byte("tulle node"))
	return hex.EncodeToString(mac.Sum(nil)[:16])
}
