package move

import (
	"fmt"
	"iter"
	"slices"
	"sort"

	"github.com/tulle-net/tulle/subnet"
)

// Peer is what a plan depends on of one peer.
type Peer struct {
	Key   string
	Attrs *subnet.Attrs
	// By is the backend by which this node sends to it, or "" if no backend reaches it.
	By string
	// Lacks is why the config's backend does not reach it, though both have that backend.
	Lacks error
	// Refused reports that the kernel refuses some of its objects.
	Refused bool
}

// State is what a plan depends on.
type State struct {
	// Held are the types of the backends that the node holds, the config's first.
	Held []string
	// Published is what the store has of the node.
	Published subnet.Attrs
	// Seen is what the store's updates have said of the node last: Peers are at least as
	// recent.
	Seen subnet.Attrs
	// InPlace reports that the kernel holds what the config's backend needs with or
	// without peers, and that the firewall lets its packets pass.
	InPlace bool
	// Settled reports that the kernel was given all that Peers need, and that Peers are
	// all peers there are.
	Settled bool
	Peers   iter.Seq[Peer]
}

// Plan is what follows from a State.
type Plan struct {
	// Primary is the backend to publish as the primary one. Offers, whose data are empty,
	// and Sends are the Move to publish.
	Primary string
	Offers  []subnet.Offer
	Sends   []string
	// Unneeded are the backends that no peer and no part of the plan needs.
	Unneeded []string
	// Peers is how many peers there are, and Switched to how many of them the node sends
	// by the config's backend.
	Peers, Switched int
	// Waits are the peers that the move waits for, and why.
	Waits []Wait
}

// Wait is one peer that a move waits for.
type Wait struct{ Key, Name, Why string }

// survey is what the peers have in common.
type survey struct {
	mine, theirs map[string]bool // backends by which this node and any peer send
	spoken       map[string]bool // former backends that any peer publishes
	without      []string        // leases of nodes that could not send to this one by the target
}

// Plan returns what the node publishes, and what it needs no longer. Each step waits until
// the kernel has what the step before needs, so that a node receives by a backend before
// any peer sends by it.
func (s State) Plan() (p Plan) {
	target := s.Held[0]
	p.Primary = s.Published.BackendType
	if !slices.ContainsFunc(s.Held, s.Published.Primary) {
		p.Primary = target // the node has published nothing that it still holds
	} else if !slices.Contains(s.Held, p.Primary) {
		p.Primary = s.Held[slices.IndexFunc(s.Held, s.Published.Primary)]
	}
	published, _ := s.Published.Offer(target)
	all := s.look(&p, published)
	if p.Primary != target && s.InPlace && s.Settled && len(p.Waits) == 0 {
		p.Primary = target
	}
	p.Sends = s.sends(p.Primary, all)
	p.Offers = s.offers(p.Primary, published, all)
	p.Unneeded = s.unneeded(p, all)
	sort.Slice(p.Waits, func(i, j int) bool { return p.Waits[i].Key < p.Waits[j].Key })
	return p
}

// look looks at all peers.
func (s State) look(p *Plan, published subnet.Offer) survey {
	target := s.Held[0]
	all := survey{mine: make(map[string]bool), theirs: make(map[string]bool), spoken: make(map[string]bool)}
	for peer := range s.Peers {
		p.Peers++
		all.mine[peer.By] = true
		sends := peer.Attrs.Sends()
		for _, kind := range sends {
			all.theirs[kind] = true
		}
		for _, kind := range s.Held[1:] {
			all.spoken[kind] = all.spoken[kind] || peer.Attrs.Speaks(kind)
		}
		speaks := peer.Attrs.Speaks(target)
		refused := peer.Refused && !published.Accepts(peer.Key)
		ours := peer.Attrs.Node.ID != "" // flannel's nodes never send by an offer
		if ours && !speaks || speaks && (peer.Lacks != nil || refused) {
			all.without = append(all.without, peer.Key)
		}
		if peer.By == target {
			p.Switched++
		}
		if why := s.waits(peer, speaks, sends); why != "" {
			p.Waits = append(p.Waits, Wait{peer.Key, peer.Attrs.Node.Name, why})
		}
	}
	// flannel writes no type for these two.
	all.theirs["alloc"] = all.theirs["alloc"] || all.theirs[""]
	all.theirs["udp"] = all.theirs["udp"] || all.theirs[""]
	slices.Sort(all.without)
	return all
}

// waits returns why the move waits for a peer, or "".
func (s State) waits(peer Peer, speaks bool, sends []string) string {
	target := s.Held[0]
	switch {
	case !speaks && peer.Attrs.Node.ID == "":
		return fmt.Sprintf("a flannel node that has only %s", peer.Attrs.BackendType)
	case !speaks:
		return fmt.Sprintf("its lease has only %s; it may be down, have the former config, or run a version that does not move", peer.Attrs.BackendType)
	case peer.Lacks != nil && peer.By != "":
		return fmt.Sprintf("%s cannot reach it: %v", target, peer.Lacks)
	case peer.By != target && peer.By != "":
		return fmt.Sprintf("it does not accept %s from this node yet", target)
	case !s.Published.Primary(target):
		return ""
	}
	for _, kind := range s.Held[1:] {
		if slices.Contains(sends, kind) {
			return fmt.Sprintf("it still sends by %s", kind)
		}
	}
	return ""
}

// sends returns the backends to publish as those by which the node sends, or nil if that
// is the primary one alone. Until the kernel has all, it may still send by the earlier ones.
func (s State) sends(primary string, all survey) (sends []string) {
	var before []string
	if !s.Settled {
		before = s.Published.Sends()
	}
	for _, kind := range s.Held {
		if all.mine[kind] || slices.Contains(before, kind) {
			sends = append(sends, kind)
		}
	}
	if len(sends) == 1 && sends[0] == primary {
		return nil
	}
	return sends
}

// offers returns what to publish beside the primary backend: the config's, and those that
// peers still use.
func (s State) offers(primary string, published subnet.Offer, all survey) (offers []subnet.Offer) {
	for i, kind := range s.Held {
		before, was := s.Published.Offer(kind)
		if s.Published.Primary(kind) {
			before, was = subnet.Offer{Ready: true}, true
		}
		switch {
		case kind == primary:
		case i > 0:
			if was && (all.mine[kind] || all.theirs[kind]) {
				offers = append(offers, subnet.Offer{Type: kind, Ready: before.Ready, Without: before.Without})
			}
		case !s.InPlace && !was:
		case !s.InPlace || !s.Settled:
			offers = append(offers, subnet.Offer{Type: kind, Ready: published.Ready, Without: published.Without})
		case len(all.without) > subnet.MostWithout:
			offers = append(offers, subnet.Offer{Type: kind})
		default:
			offers = append(offers, subnet.Offer{Type: kind, Ready: true, Without: all.without})
		}
	}
	return offers
}

// unneeded returns the backends that no peer sends by, nor may begin to. A peer that
// publishes a backend begins when it reads this node's offer of it, though the store no
// longer has that offer: the peer may be cut off, and read late. One that publishes it after
// this node's offer was withdrawn has read so.
func (s State) unneeded(p Plan, all survey) (kinds []string) {
	for _, kind := range s.Held[1:] {
		needed := kind == p.Primary || s.Published.Speaks(kind) || s.Seen.Speaks(kind) || all.mine[kind] || all.theirs[kind] || all.spoken[kind]
		if s.Settled && !needed {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}
