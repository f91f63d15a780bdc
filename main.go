// Command tulled gives a host of a cluster its piece of one flat container
// network.
package main

import (
	"os"

	"github.com/tulle-net/tulle/backend"
	"github.com/tulle-net/tulle/backend/alloc"
	"github.com/tulle-net/tulle/backend/cloud"
	"github.com/tulle-net/tulle/backend/extension"
	"github.com/tulle-net/tulle/backend/hostgw"
	"github.com/tulle-net/tulle/backend/ipip"
	"github.com/tulle-net/tulle/backend/udp"
	"github.com/tulle-net/tulle/backend/vxlan"
	"github.com/tulle-net/tulle/backend/wireguard"
	"github.com/tulle-net/tulle/pkg/command"
)

// version is set by the linker.
var version = "devel"

// backends are all there are, by the name that a config calls them by.
var backends = map[string]backend.Factory{
	alloc.Type:     alloc.New,
	cloud.Type:     cloud.New,
	extension.Type: extension.New,
	hostgw.Type:    hostgw.New,
	ipip.Type:      ipip.New,
	udp.Type:       udp.New,
	vxlan.Type:     vxlan.New,
	wireguard.Type: wireguard.New,
}

func main() {
	os.Exit(command.Main(version, backends))
}
