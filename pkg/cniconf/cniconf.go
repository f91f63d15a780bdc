// Package cniconf writes what a container runtime on CNI is to do for each of
// its containers: a configuration list (conflist) of the bridge, host-local and
// portmap plugins that needs no other file and no plugin of flannel's.
package cniconf

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"

	"github.com/tulle-net/tulle/subnet"
)

// A node that comes from flannel must find its containers where it left them.
// host-local keeps who has which address in a folder named for the network, and
// flannel's is called cbr0; flannel's plugin lets the bridge plugin choose the
// bridge's name, which is cni0.
const (
	network = "cbr0"
	bridge  = "cni0"
)

// Check returns why the file at path is none that Format wrote.
func Check(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var l struct {
		Name    string
		Plugins []struct{ Type, Bridge string }
	}
	if err := json.Unmarshal(text, &l); err != nil {
		return fmt.Errorf("not a CNI configuration: %w", err)
	}
	if l.Name != network || len(l.Plugins) != 2 || l.Plugins[0].Type != "bridge" || l.Plugins[0].Bridge != bridge || l.Plugins[1].Type != "portmap" {
		return errors.New("not written by tulle")
	}
	return nil
}

// Conf is what depends on the host. A family that is off is the zero Prefix.
type Conf struct {
	Networks subnet.Pair[netip.Prefix] // routed by the bridge, even where another network has the default route
	Subnets  subnet.Pair[netip.Prefix] // the host's own
	MTU      int
}

type list struct {
	CNIVersion string `json:"cniVersion"`
	Name       string `json:"name"`
	Plugins    [2]any `json:"plugins"`
}

type bridgePlugin struct {
	Type             string `json:"type"`
	Bridge           string `json:"bridge"`
	IsGateway        bool   `json:"isGateway"`
	IsDefaultGateway bool   `json:"isDefaultGateway"`
	HairpinMode      bool   `json:"hairpinMode"`
	// ForceAddress has a bridge that was made for another subnet take this one's
	// address with the next container, which could not be joined to it otherwise.
	ForceAddress bool `json:"forceAddress"`
	IPMasq       bool `json:"ipMasq"`
	MTU          int  `json:"mtu"`
	IPAM         ipam `json:"ipam"`
}

type ipam struct {
	Type string `json:"type"`
	// Ranges are lists of ranges; a container gets one address of each list.
	Ranges [][]ipRange `json:"ranges"`
	Routes []route     `json:"routes"`
}

type ipRange struct {
	Subnet netip.Prefix `json:"subnet"`
}

type route struct {
	Dst netip.Prefix `json:"dst"`
	GW  netip.Addr   `json:"gw"` // which the bridge plugin's CHECK looks for
}

type portmapPlugin struct {
	Type         string       `json:"type"`
	Capabilities capabilities `json:"capabilities"`
}

type capabilities struct {
	PortMappings bool `json:"portMappings"`
}

// Format writes the configuration list; the same Conf gives the same bytes.
//
// The bridge has each subnet's first address: host-local counts from the
// subnet's own address, so that is written without host bits, and the gateway
// comes out as the env file says it. Masquerading is tulled's, which knows what
// leaves the network, and never the bridge plugin's.
func Format(c Conf) []byte {
	addresses := ipam{Type: "host-local", Ranges: [][]ipRange{}, Routes: []route{}}
	for f := range subnet.Families {
		if s := c.Subnets[f]; s.IsValid() {
			addresses.Ranges = append(addresses.Ranges, []ipRange{{s.Masked()}})
		}
		if n := c.Networks[f]; n.IsValid() {
			addresses.Routes = append(addresses.Routes, route{n.Masked(), c.Subnets[f].Masked().Addr().Next()})
		}
	}
	text, err := json.MarshalIndent(list{
		CNIVersion: "1.0.0",
		Name:       network,
		Plugins: [2]any{
			bridgePlugin{
				Type: "bridge", Bridge: bridge,
				IsGateway: true, IsDefaultGateway: true, HairpinMode: true, ForceAddress: true,
				MTU: c.MTU, IPAM: addresses,
			},
			portmapPlugin{Type: "portmap", Capabilities: capabilities{PortMappings: true}},
		},
	}, "", "  ")
	if err != nil {
		panic(err) // plain values, all of them
	}
	return append(text, '\n')
}
