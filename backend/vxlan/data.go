package vxlan

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/tulle-net/tulle/backend"
	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/subnet"
)

// data is what a node publishes of its tunnel device.
type data struct {
	vni uint32 // 0: not published, as by early flannels
	mac netstate.MAC
}

// wireData is data in flannel's format, which has only the lower 16 bits of a VNI and
// cannot read a larger one.
type wireData struct {
	VNI     uint32
	VtepMAC string
}

func formatData(vni uint32, mac netstate.MAC) string {
	b, err := json.Marshal(wireData{vni & 0xffff, mac.String()})
	if err != nil {
		panic(err) // a number and a string can always be encoded
	}
	return string(b)
}

func parseData(s string) (data, error) {
	d, ok := asWritten(s)
	if !ok {
		var err error
		if d, err = parseJSON(s); err != nil {
			return data{}, err
		}
	}
	if d.mac.IsZero() || d.mac[0]&1 != 0 {
		return data{}, fmt.Errorf("%w: VtepMAC %s is not a unicast address", backend.ErrBackendData, d.mac)
	}
	return d, nil
}

// asWritten reads data in exactly the form that tulle and flannel write. Nearly all
// data is. encoding/json would take ten times as long. ok is false for any other form.
func asWritten(s string) (d data, ok bool) {
	s, begins := strings.CutPrefix(s, `{"VNI":`)
	s, ends := strings.CutSuffix(s, `"}`)
	number, address, both := strings.Cut(s, `,"VtepMAC":"`)
	vni, vniErr := strconv.ParseUint(number, 10, 32)
	mac, macErr := netstate.ParseMAC(address)
	if !begins || !ends || !both || vniErr != nil || macErr != nil || number[0] == '0' && number != "0" {
		return data{}, false
	}
	return data{uint32(vni), mac}, true
}

func parseJSON(s string) (data, error) {
	var w wireData
	if err := json.Unmarshal([]byte(s), &w); err != nil {
		return data{}, fmt.Errorf("%w: %.100s", backend.ErrBackendData, err)
	}
	mac, err := netstate.ParseMAC(w.VtepMAC)
	if err != nil {
		return data{}, fmt.Errorf("%w: VtepMAC %.50q is not a MAC address", backend.ErrBackendData, w.VtepMAC)
	}
	return data{w.VNI, mac}, nil
}

// fits returns why device cannot reach a peer with this data, or nil if it can.
func (d data) fits(device netstate.Link) error {
	if d.vni != 0 && d.vni&0xffff != device.VXLAN.VNI&0xffff {
		return fmt.Errorf("%w: VNI %d, where this node has %d", backend.ErrBackendData, d.vni, device.VXLAN.VNI)
	}
	if d.mac == device.MAC {
		return fmt.Errorf("%w: VtepMAC %s is this node's own; do two machines share a machine-id?", backend.ErrBackendData, d.mac)
	}
	return nil
}

// deriveMAC returns the MAC of a node's tunnel device, which never changes: peers
// need not learn another when the node restarts or loses its device.
func deriveMAC(nodeID string, f subnet.Family) netstate.MAC {
	sum := sha256.Sum256([]byte("tulle vxlan " + f.String() + " " + nodeID))
	mac := netstate.MAC(sum[:6])
	mac[0] = mac[0]&^1 | 2 // unicast, locally administered
	return mac
}
