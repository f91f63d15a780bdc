package identity

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Hardware identifies a machine. A part that ReadHardware cannot read is empty.
type Hardware struct {
	UUID string   `json:"uuid,omitempty"`
	MACs []string `json:"macs,omitempty"` // sorted
}

const (
	mostMACs = 256
	mostUUID = 100 // bytes
)

// ReadHardware reads the hardware of this machine from its /sys.
func ReadHardware(sys string) Hardware {
	var h Hardware
	if text, err := os.ReadFile(filepath.Join(sys, "class/dmi/id/product_uuid")); err == nil {
		if uuid := strings.ToLower(strings.TrimSpace(string(text))); len(uuid) <= mostUUID && printable(uuid) {
			h.UUID = uuid
		}
	}
	links, err := os.ReadDir(filepath.Join(sys, "class/net"))
	if err != nil {
		return h
	}
	var physical, plain []string
	for _, link := range links {
		folder := filepath.Join(sys, "class/net", link.Name())
		mac := readMAC(folder)
		switch {
		case mac == "":
		case exists(folder, "device"):
			physical = append(physical, mac)
		case isPlain(folder):
			plain = append(plain, mac)
		}
	}
	h.MACs = physical
	if len(physical) == 0 {
		// A container, or a host in a namespace, has no physical interface.
		h.MACs = plain
	}
	slices.Sort(h.MACs)
	h.MACs = slices.Compact(h.MACs)
	h.MACs = h.MACs[:min(len(h.MACs), mostMACs)]
	return h
}

// readMAC returns the address of an Ethernet interface, or "".
func readMAC(folder string) string {
	text, err := os.ReadFile(filepath.Join(folder, "address"))
	if err != nil {
		return ""
	}
	mac, err := net.ParseMAC(strings.TrimSpace(string(text)))
	if err != nil || len(mac) != 6 || bytes.Equal(mac, make([]byte, 6)) {
		return ""
	}
	return mac.String()
}

// isPlain reports whether an interface is neither a virtual one, such as a bridge or a
// tunnel, nor a bridge's port: copies of one machine may share the addresses of those.
func isPlain(folder string) bool {
	uevent, err := os.ReadFile(filepath.Join(folder, "uevent"))
	return err == nil && !bytes.Contains(uevent, []byte("DEVTYPE=")) && !exists(folder, "master")
}

func exists(folder, name string) bool {
	_, err := os.Lstat(filepath.Join(folder, name))
	return err == nil
}

// isSameAs reports whether h and before may be one machine: the UUIDs are equal, and at
// least one MAC address is in both. A part that either does not know counts as equal.
func (h Hardware) isSameAs(before Hardware) bool {
	if h.UUID != "" && before.UUID != "" && h.UUID != before.UUID {
		return false
	}
	if len(h.MACs) == 0 || len(before.MACs) == 0 {
		return true
	}
	return slices.ContainsFunc(before.MACs, func(mac string) bool { return slices.Contains(h.MACs, mac) })
}

func (h Hardware) equal(o Hardware) bool { return h.UUID == o.UUID && slices.Equal(h.MACs, o.MACs) }
