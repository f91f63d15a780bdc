package nft

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
	"k8s.io/klog/v2"

	"github.com/tulle-net/tulle/pkg/firewall"
	"github.com/tulle-net/tulle/subnet"
)

// Others reports foreign chains that drop overlay traffic, which no accept rule of
// ours can prevent. They are outside iptables' tables, where a rule of ours could be,
// and we write to no foreign table. If we write no accept rules, it reports iptables'
// chains too. It is a firewall.Engine that writes nothing.
type Others struct {
	*Tables
	// Unforwarded is what texts call the setting that omits the rules for forwarded
	// packets, like --iptables-forward-rules=false.
	Unforwarded string

	mu     sync.Mutex
	logged []string
	tables map[string]bool // whose rules matter
}

// Sync implements firewall.Engine.
func (o *Others) Sync(_ context.Context, r firewall.Rules) (changed bool, err error) {
	found, err := o.droppers(r)
	if err != nil {
		return false, fmt.Errorf("list foreign chains: %w", err)
	}
	var all []string
	for _, d := range found {
		all = append(all, d.String())
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if slices.Equal(all, o.logged) {
		return false, nil
	}
	if len(all) == 0 {
		klog.InfoS("Foreign firewall rules no longer drop the network's packets")
	}
	for _, text := range all {
		if !slices.Contains(o.logged, text) {
			klog.InfoS("Foreign firewall rules drop the network's packets; no accept rule of ours can prevent it", "reason", text)
		}
	}
	o.logged = all
	return false, nil
}

// Tell returns which chains drop traffic, and the fix.
func (o *Others) Tell() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.logged
}

// dropper is a foreign chain that drops packets.
type dropper struct {
	chain    string // as nft names it
	what     string // what is dropped
	networks []netip.Prefix
	fix      string
}

func (d dropper) String() string {
	var networks []string
	for _, n := range d.networks {
		networks = append(networks, n.String())
	}
	return fmt.Sprintf("the chain %s drops packets %s %s; %s", d.chain, d.what, strings.Join(networks, " and "), d.fix)
}

// The tables of known programs: firewalld, Docker with nftables, whose form this
// package does not read, and Docker with iptables.
const (
	firewalld = "firewalld"
	docker    = "docker-bridges"
	rawTable  = "raw"
)

// byUs returns the fix for a chain of iptables.
func (o *Others) byUs() string {
	if o.Unforwarded == "" {
		return "enable the forward rules, or accept them there"
	}
	return "restart the daemon without " + o.Unforwarded + ", or accept them there"
}

// fix returns the fix for a chain of a table that drops overlay traffic.
func fix(table string, networks []netip.Prefix) string {
	switch table {
	case firewalld:
		text := "let firewalld accept them: "
		for _, n := range networks {
			text += "firewall-cmd --permanent --zone=trusted --add-source=" + n.String() + " && "
		}
		return text + "firewall-cmd --reload"
	case docker:
		return "start dockerd with --firewall-backend=iptables"
	case rawTable:
		return "start dockerd with --allow-direct-routing (Docker 28.2 and later)"
	}
	return "accept them there"
}

// droppers returns those chains.
func (o *Others) droppers(r firewall.Rules) (all []dropper, err error) {
	c, err := dial(o.namespace, 0)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	tables := map[string]bool{rawTable: true}
	for _, kind := range []struct {
		name   string
		family uint8
	}{{"inet", unix.NFPROTO_INET}, {"ip", unix.NFPROTO_IPV4}, {"ip6", unix.NFPROTO_IPV6}} {
		answer, err := c.request(kind.family, unix.NFT_MSG_GETCHAIN, netlink.Dump, nil)
		if err != nil {
			return nil, err
		}
		for _, m := range answer {
			if len(m.Data) < 4 || m.Data[0] != kind.family {
				continue
			}
			a := attributes(m.Data[4:])
			at := base{kind.family, text(a.of[unix.NFTA_CHAIN_TABLE]), text(a.of[unix.NFTA_CHAIN_NAME]), hookOf(&a).policy == 0}
			d := dropper{chain: kind.name + " " + at.table + " " + at.chain}
			ours := at.family != unix.NFPROTO_INET && at.table == filterTable && at.chain == forwardChain // where ours are
			switch hook := a.of[unix.NFTA_CHAIN_HOOK]; {
			case hook == nil || ours && r.Forward:
			case forwards(&a):
				d.what = "forwarded from and to"
				d.networks, err = c.dropped(at, r)
			case at.table == rawTable && hookOf(&a).number == unix.NF_INET_PRE_ROUTING:
				d.what = "from other hosts to containers in"
				d.networks, err = c.direct(at, r)
			}
			if err != nil {
				return nil, err
			}
			if len(d.networks) > 0 {
				if d.fix = fix(at.table, d.networks); ours {
					d.fix = o.byUs()
				}
				all = append(all, d)
			}
			if forwards(&a) && (at.drops || len(d.networks) > 0 || at.table == firewalld) {
				tables[at.table] = true
			}
		}
	}
	o.mu.Lock()
	o.tables = tables
	o.mu.Unlock()
	return all, nil
}

// base is a chain that packets enter from the kernel.
type base struct {
	family       uint8
	table, chain string
	drops        bool // by its policy
}

// has reports whether packets of a family enter a chain.
func (b base) has(f subnet.Family) bool {
	return b.family == unix.NFPROTO_INET || b.family == protocols[f]
}

// dropped returns the networks whose forwarded packets a chain drops.
func (c conn) dropped(b base, r firewall.Rules) (networks []netip.Prefix, err error) {
	known := make(map[string][]firewall.Rule)
	rules := func(name string) []firewall.Rule {
		all, ok := known[name]
		if !ok && err == nil {
			var there []found
			there, err = c.rules(b.family, b.table, name)
			all = plain(there)
			known[name] = all
		}
		return all
	}
	policy := firewall.Accept
	if b.drops {
		policy = firewall.Drop
	}
	for _, f := range subnet.Families {
		if b.has(f) && r.Networks[f].IsValid() &&
			(b.table == docker || firewall.Drops(rules(b.chain), rules, policy, r.Networks[f], r.Own[f])) {
			networks = append(networks, r.Networks[f])
		}
	}
	return networks, err
}

// direct returns the node's subnets for which a chain accepts packets only from a
// bridge, as Docker's does since version 28.
func (c conn) direct(b base, r firewall.Rules) (networks []netip.Prefix, err error) {
	all, err := c.rules(b.family, b.table, b.chain)
	for _, f := range subnet.Families {
		if b.has(f) && r.Own[f].IsValid() && slices.ContainsFunc(all, func(rule found) bool {
			to := rule.To.Prefix
			return rule.Does == firewall.Drop && rule.In.Not && !rule.To.Not && to.IsValid() && r.Own[f].Contains(to.Addr()) && to.Bits() >= r.Own[f].Bits()
		}) {
			networks = append(networks, r.Own[f])
		}
	}
	return networks, err
}

// matters reports whether the rules of a table matter.
func (o *Others) matters(table string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.tables[table]
}

// forwards reports whether a chain decides on forwarded packets.
func forwards(chain *list) bool {
	return chain.of[unix.NFTA_CHAIN_HOOK] != nil && hookOf(chain).number == unix.NF_INET_FORWARD
}

// Watch calls poke when it begins to listen, and when rules change where they matter.
// It also calls poke when a chain appears that decides on forwarded packets, and when
// any chain disappears, because newer kernels do not report what that chain decided
// on. It returns when ctx ends or the socket fails.
func (o *Others) Watch(ctx context.Context, poke func()) error {
	return o.watch(ctx, poke, func(e netlink.Message) bool {
		switch e.Header.Type & 0xff {
		case unix.NFT_MSG_NEWRULE, unix.NFT_MSG_DELRULE:
			return o.matters(text(inside(e.Data[4:], unix.NFTA_RULE_TABLE)))
		case unix.NFT_MSG_NEWCHAIN:
			chain := attributes(e.Data[4:])
			return forwards(&chain)
		case unix.NFT_MSG_DELCHAIN:
			return true
		}
		return false
	})
}
