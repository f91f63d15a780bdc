// Package extension is the backend of the operator's own commands. They run for this host
// and for each peer, with flannel's environment and standard input.
//
// The backend runs nothing: it says which commands have to have been run. The texts of
// commands are the config's, whole and unchanged. What a peer publishes is only in their
// variables, which are checked addresses, and in their standard input.
package extension

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/tulle-net/tulle/backend"
	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/subnet"
)

// Type is the backend's name in a config.
const Type = "extension"

type extension struct {
	host   backend.HostFacts
	config config
	pools  subnet.Pair[netip.Prefix]
	output string // of PreStartupCommand
}

// New returns the backend. On a host that runs commands, the error wraps
// netstate.ErrUnfinished until PreStartupCommand has ended.
func New(cfg subnet.Config, host backend.HostFacts) (backend.Backend, error) {
	c, err := parse(cfg)
	if err != nil {
		return nil, err
	}
	b := extension{host: host, config: c, pools: cfg.Networks()}
	if host.Prepare != nil {
		if b.output, err = host.Prepare(c.PreStartupCommand, c.limit()); err != nil {
			return nil, err
		}
	}
	return b, nil
}

func (b extension) Settings() any { return b.config }

func (b extension) MTU() int {
	mtu := b.host.MTU()
	if b.config.MTU == 0 || mtu != 0 && mtu < b.config.MTU {
		return mtu
	}
	return b.config.MTU
}

// Publish returns the output of PreStartupCommand as the lease's data, as flannel does:
// that of IPv4, also for both families.
func (b extension) Publish() subnet.Attrs {
	a := b.host.Attrs(Type, b.MTU())
	if b.config.PreStartupCommand == "" {
		return a
	}
	data, err := json.Marshal(b.output)
	if err != nil {
		panic(err) // a text can always be encoded
	}
	a.BackendData[b.family()] = string(data)
	return a
}

// family returns the family whose data of a lease is the command's.
func (b extension) family() subnet.Family {
	if !b.pools[subnet.IPv4].IsValid() {
		return subnet.IPv6
	}
	return subnet.IPv4
}

// The keys of a config, which name the commands in logs and reports.
const (
	postStartup = "PostStartupCommand"
	subnetAdd   = "SubnetAddCommand"
)

// Host returns what a host needs to forward packets, and PostStartupCommand.
func (b extension) Host(own subnet.Lease) []netstate.Object {
	objects := b.host.Forwarding(own)
	if b.config.PostStartupCommand == "" {
		return objects
	}
	var public subnet.Pair[netip.Addr]
	for f, u := range b.host.Uplinks {
		public[f] = u.Public
	}
	// flannel writes the absent address of IPv6 so here, and sets no variable for peers.
	six := "<nil>"
	if public[subnet.IPv6].IsValid() {
		six = public[subnet.IPv6].String()
	}
	return append(objects, netstate.Command{
		Name: postStartup, Run: b.config.PostStartupCommand, Limit: b.config.limit(),
		Env: variables(
			"NETWORK", prefix(subnet.IPv4, b.pools), "SUBNET", prefix(subnet.IPv4, own.Subnets), "IPV6SUBNET", prefix(subnet.IPv6, own.Subnets),
			"PUBLIC_IP", address(public[subnet.IPv4]), "PUBLIC_IPV6", six,
		),
	})
}

// Peer returns SubnetAddCommand for a peer, with SubnetRemoveCommand to undo it.
func (b extension) Peer(own, peer subnet.Lease, _ backend.Metrics) ([]netstate.Object, error) {
	if b.config.SubnetAddCommand == "" && b.config.SubnetRemoveCommand == "" {
		return nil, nil
	}
	var of netip.Prefix
	var failed error
	for _, f := range subnet.Families {
		if !own.Subnets[f].IsValid() || !peer.Subnets[f].IsValid() {
			continue
		}
		if !of.IsValid() {
			of = peer.Subnets[f]
		}
		if err := b.host.CheckPeer(f, peer); err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", f, err))
		}
	}
	if failed != nil || !of.IsValid() {
		return nil, failed
	}
	input, err := parseData(peer.BackendData[b.family()])
	if err != nil {
		return nil, err
	}
	pairs := []string{"SUBNET", prefix(subnet.IPv4, peer.Subnets), "PUBLIC_IP", address(peer.PublicIP[subnet.IPv4])}
	if s, at := peer.Subnets[subnet.IPv6], peer.PublicIP[subnet.IPv6]; s.IsValid() && at.IsValid() {
		pairs = append(pairs, "IPV6SUBNET", s.String(), "PUBLIC_IPV6", at.String())
	}
	return []netstate.Object{netstate.Command{
		Name: subnetAdd, Subnet: of, Run: b.config.SubnetAddCommand, Undo: b.config.SubnetRemoveCommand,
		Env: variables(pairs...), Stdin: input, Limit: b.config.limit(),
	}}, nil
}

// prefix returns the subnet of a family as flannel writes it; one that is off is all
// zeros.
func prefix(f subnet.Family, of subnet.Pair[netip.Prefix]) string {
	switch {
	case of[f].IsValid():
		return of[f].String()
	case f == subnet.IPv6:
		return "::/0"
	}
	return "0.0.0.0/0"
}

// address returns an IPv4 address as flannel writes it.
func address(ip netip.Addr) string {
	if !ip.IsValid() {
		return "0.0.0.0"
	}
	return ip.String()
}

// variables returns pairs of names and values as lines.
func variables(pairs ...string) string {
	var lines []string
	for i := 0; i < len(pairs); i += 2 {
		lines = append(lines, pairs[i]+"="+pairs[i+1])
	}
	return strings.Join(lines, "\n")
}

// mostData is the size limit of the text that a peer publishes.
const mostData = 16 << 10

// parseData returns the text that a peer publishes, whatever is in it. No data is "".
func parseData(s string) (string, error) {
	if s == "" || s == "null" {
		return "", nil
	}
	var text string
	if err := json.Unmarshal([]byte(s), &text); err != nil {
		return "", fmt.Errorf("%w: not a text in quotes: %.80q", backend.ErrBackendData, s)
	}
	if len(text) > mostData {
		return "", fmt.Errorf("%w: %d bytes, and the limit is %d", backend.ErrBackendData, len(text), mostData)
	}
	return text, nil
}
