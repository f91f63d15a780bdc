package firewall

import (
	"net/netip"
	"strings"
)

// Chains are the chains of one foreign table, by name.
type Chains map[string][]Rule

// Position returns the index at which an accept of the network's packets belongs
// among the rules of chain. That is before the first rule that drops them whatever
// their addresses and ports are, or else at the end, where only the chain's policy
// follows. So rules of people or policy engines that name an address, port or mark
// come first.
func (c Chains) Position(chain string, network, own netip.Prefix) int {
	return Position(c[chain], func(name string) []Rule { return c[name] }, network, own)
}

// Position is Chains.Position for callers that only read chains that are jumped to.
func Position(rules []Rule, chain func(name string) []Rule, network, own netip.Prefix) int {
	place := len(rules)
	for _, p := range crossing(network, own) {
		w := walk{p, chain, make(map[string]Verdict)}
		for i, r := range rules[:place] {
			v := w.take(r)
			if v == Drop || v == Return && !r.named() { // which leaves it to the policy
				place = i
			}
			if v == Accept || place == i {
				break
			}
		}
	}
	return place
}

// Drops reports whether the rules of a chain drop overlay traffic, or its policy
// does. It returns false if some names of devices on both sides pass in both
// directions: only a person who meant that lets devices pass by name.
func Drops(rules []Rule, chain func(name string) []Rule, policy Verdict, network, own netip.Prefix) bool {
	passes := func(p packet) bool {
		w := walk{p, chain, make(map[string]Verdict)}
		for _, r := range rules {
			switch w.take(r) {
			case Accept:
				return true
			case Drop:
				return false
			case Return:
				return policy != Drop
			}
		}
		return policy != Drop
	}
	for _, tunnel := range []string{"", "tulle.1", "flannel.1"} {
		both := crossing(network, own)
		for ; len(both) > 0; both = both[2:] {
			both[0].out, both[1].in = tunnel, tunnel
			if passes(both[0]) && passes(both[1]) {
				return false
			}
		}
	}
	return true
}

// packet is a forwarded packet as a firewall sees it.
type packet struct {
	in, out  string
	from, to netip.Addr
}

// crossing returns packets from and to another host of the network. The devices on
// this side have the names that foreign rules know. On the other side, the device has
// a name that no rule contains, because a rule that names it is meant for it.
func crossing(network, own netip.Prefix) []packet {
	here, there := own.Addr().Next(), network.Addr().Next()
	if own.Contains(there) {
		there = last(own).Next()
	}
	var packets []packet
	for _, bridge := range []string{"docker0", "cni0"} {
		packets = append(packets, packet{in: bridge, from: here, to: there}, packet{out: bridge, from: there, to: here})
	}
	return packets
}

// last returns the highest address of p.
func last(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for i := p.Bits(); i < 8*len(b); i++ {
		b[i/8] |= 1 << (7 - i%8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

// walk is the path of one packet through the chains.
type walk struct {
	packet packet
	chain  func(name string) []Rule
	known  map[string]Verdict // the result of each chain: Accept, Drop or None
}

// take returns what a rule does with the packet; None means that it continues. A
// packet that is dropped because of its addresses continues too, because the rule's
// author meant these addresses.
func (w *walk) take(r Rule) Verdict {
	if !w.packet.matches(r) {
		return None
	}
	v := r.Does
	if v == Jump || v == Goto {
		v = w.pass(r.Chain)
		if v == None && r.Does == Goto {
			v = Return // to the rule after the jump into this chain
		}
	}
	if v != Accept && v != Drop && v != Return || r.named() && v == Drop {
		return None
	}
	return v
}

// named reports whether a rule names addresses.
func (r Rule) named() bool { return r.From.Prefix.IsValid() || r.To.Prefix.IsValid() }

// pass returns what a chain does with the packet. In a chain that leads back to
// itself, which the kernel does not allow, the packet continues.
func (w *walk) pass(chain string) Verdict {
	if v, ok := w.known[chain]; ok {
		return v
	}
	w.known[chain] = None
	for _, r := range w.chain(chain) {
		v := w.take(r)
		if v == Accept || v == Drop {
			w.known[chain] = v
		}
		if v != None {
			break
		}
	}
	return w.known[chain]
}

// matches reports whether r certainly matches p.
func (p packet) matches(r Rule) bool {
	return !r.Opaque && !r.Marked && r.From.takes(p.from) && r.To.takes(p.to) && r.In.takes(p.in) && r.Out.takes(p.out)
}

func (n Net) takes(a netip.Addr) bool {
	return !n.Prefix.IsValid() || n.Prefix.Contains(a) != n.Not
}

func (i Iface) takes(name string) bool {
	if i.Name == "" && !i.Wild {
		return true
	}
	found := name == i.Name || i.Wild && strings.HasPrefix(name, i.Name)
	return found != i.Not
}
