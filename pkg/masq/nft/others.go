package nft

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
	"k8s.io/klog/v2"

	"github.com/tulle-net/tulle/pkg/masq"
)

// Others tells of chains of others' by which what is forwarded may be dropped,
// whatever rules of ours accept: they are no tables of iptables, where ours could
// stand, and to write to them would be to touch another's. It is a masq.Engine
// that writes nothing.
type Others struct {
	*Tables
	told string
}

// Sync implements masq.Engine.
func (o *Others) Sync(_ context.Context, r masq.Rules) (changed bool, err error) {
	if !r.Forward {
		return false, nil
	}
	chains, err := o.droppers()
	if err != nil {
		return false, fmt.Errorf("look for others' chains: %w", err)
	}
	text := strings.Join(chains, ", ")
	if text == o.told {
		return false, nil
	}
	o.told = text
	if text == "" {
		klog.InfoS("No chain of others' drops what is forwarded any more")
		return false, nil
	}
	var networks []string
	for _, n := range r.Networks {
		if n.IsValid() {
			networks = append(networks, n.String())
		}
	}
	fix := "accept the network there"
	switch {
	case strings.Contains(text, firewalld):
		fix = "firewall-cmd --permanent --zone=trusted --add-source=NETWORK && firewall-cmd --reload"
	case strings.Contains(text, docker):
		fix = "start dockerd with --allow-direct-routing"
	}
	klog.InfoS("Others drop what is forwarded and they do not know; no rule elsewhere overrules that", "chains", text, "networks", networks, "fix", fix)
	return false, nil
}

// The tables of those who drop in chains that have no such policy: firewalld, and
// Docker where it is told to use nftables.
const (
	firewalld = "firewalld"
	docker    = "docker-bridges"
)

// droppers are the chains, as nft names them.
func (o *Others) droppers() (found []string, err error) {
	c, err := dial(o.namespace, 0)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	for name, family := range map[string]uint8{"ip": unix.NFPROTO_IPV4, "ip6": unix.NFPROTO_IPV6, "inet": unix.NFPROTO_INET} {
		answer, err := c.request(family, unix.NFT_MSG_GETCHAIN, netlink.Dump, nil)
		if err != nil {
			return nil, err
		}
		for _, m := range answer {
			if len(m.Data) < 4 || m.Data[0] != family {
				continue
			}
			a := attributes(m.Data[4:])
			table, chain := text(a.of[unix.NFTA_CHAIN_TABLE]), text(a.of[unix.NFTA_CHAIN_NAME])
			ours := family != unix.NFPROTO_INET && table == filterTable && chain == forwardChain // where ours stand
			if forwards(&a) && (table == firewalld || table == docker || hookOf(&a).policy == 0 && !ours) {
				found = append(found, fmt.Sprintf("%s %s %s", name, table, chain))
			}
		}
	}
	slices.Sort(found)
	return found, nil
}

// forwards says whether a chain decides on what is forwarded.
func forwards(chain *list) bool {
	return chain.of[unix.NFTA_CHAIN_HOOK] != nil && hookOf(chain).number == unix.NF_INET_FORWARD
}

// Watch calls poke when it begins to listen, and whenever a chain comes that
// decides on what is forwarded, or any goes, of which newer kernels do not tell
// what it decided on. It returns when ctx ends or the socket fails.
func (o *Others) Watch(ctx context.Context, poke func()) error {
	return o.watch(ctx, poke, func(e netlink.Message) bool {
		switch e.Header.Type & 0xff {
		case unix.NFT_MSG_NEWCHAIN:
			chain := attributes(e.Data[4:])
			return forwards(&chain)
		case unix.NFT_MSG_DELCHAIN:
			return true
		}
		return false
	})
}
