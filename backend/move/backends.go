// Package move is how nodes go from one backend to another while the network runs. A
// node holds both, and receives by both. It sends to each peer by the new one as soon as
// that peer accepts it, and gives the old one up when no peer uses it any more.
//
// The package is pure. Backends are what a node holds: they turn leases into objects, and
// choose the backend for each peer. State.Plan says what the node publishes, and what it
// needs no longer.
package move

import (
	"errors"
	"fmt"
	"slices"

	"github.com/tulle-net/tulle/backend"
	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/subnet"
)

// Held is a backend that a node holds.
type Held struct {
	Type string // in a config
	backend.Backend
}

// Backends are what one node holds: the backend of its config, and those that it moves
// away from.
type Backends struct {
	held   []Held
	uplink string
	round  int
}

// New returns the backends of a node, that of its config first. round is the number of its
// move. uplink is the device that faces other hosts in IPv4, or "".
func New(round int, uplink string, held ...Held) Backends { return Backends{held, uplink, round} }

// IsZero reports whether there are none.
func (b Backends) IsZero() bool { return len(b.held) == 0 }

// Moving reports whether the node holds more than one.
func (b Backends) Moving() bool { return len(b.held) > 1 }

// Target returns the config's backend.
func (b Backends) Target() Held { return b.held[0] }

// Types returns the types of all, the config's first.
func (b Backends) Types() (all []string) {
	for _, h := range b.held {
		all = append(all, h.Type)
	}
	return all
}

func (b Backends) of(kind string) (Held, bool) {
	for _, h := range b.held {
		if h.Type == kind {
			return h, true
		}
	}
	return Held{}, false
}

// MTU returns the size of the largest packet that a container may send by any backend.
func (b Backends) MTU() int {
	mtu := 0
	for _, h := range b.held {
		if own := h.MTU(); mtu == 0 || own != 0 && own < mtu {
			mtu = own
		}
	}
	return mtu
}

// Router returns the first backend that can go past a tunnel.
func (b Backends) Router() (backend.Router, bool) {
	for _, h := range b.held {
		if r, ok := h.Backend.(backend.Router); ok {
			return r, true
		}
	}
	return nil, false
}

// Rotator is a held backend that replaces its key.
type Rotator struct {
	Type string
	backend.Rotator
}

// Rotator returns the first backend that replaces its key.
func (b Backends) Rotator() (r Rotator, ok bool) {
	for _, h := range b.held {
		if r, ok := h.Backend.(backend.Rotator); ok {
			return Rotator{h.Type, r}, true
		}
	}
	return r, false
}

// Confined returns the devices of each family through which alone packets may leave. While
// the node still publishes another primary backend, they leave as its routes say.
func (b Backends) Confined(primary string) subnet.Pair[[2]string] {
	if b.Target().Type != primary {
		return subnet.Pair[[2]string]{}
	}
	return b.Target().confined()
}

// confined returns the devices to which a backend confines packets.
func (h Held) confined() (devices subnet.Pair[[2]string]) {
	if c, ok := h.Backend.(backend.Confiner); ok {
		return c.Confined()
	}
	return devices
}

func (h Held) isStrict() bool { return h.confined() != subnet.Pair[[2]string]{} }

// IsStrict reports whether packets to a peer may not leave by another backend again, once
// they left by the config's.
func (b Backends) IsStrict() bool { return b.Target().isStrict() }

// LeavesStrict reports whether the node moves away from a backend that confined packets to
// its devices.
func (b Backends) LeavesStrict() bool { return slices.ContainsFunc(b.held[1:], Held.isStrict) }

// Publish returns what the node publishes by a plan.
func (b Backends) Publish(p Plan) subnet.Attrs {
	primary, ok := b.of(p.Primary)
	if !ok {
		primary = b.Target()
	}
	a := primary.Publish()
	a.Node.MTU = b.MTU()
	m := subnet.Move{Sends: p.Sends}
	if b.Moving() {
		m.Round = b.round
	}
	for _, o := range p.Offers {
		if h, ok := b.of(o.Type); ok {
			data := h.Publish().BackendData
			o.Data, o.V6Data = []byte(data[subnet.IPv4]), []byte(data[subnet.IPv6])
			m.Offers = append(m.Offers, o)
		}
	}
	a.Move = subnet.FormatMove(m)
	return a
}

// Host returns what the node needs with or without peers: for the backend that it
// publishes as its primary one, and for the others. The network works without the latter.
func (b Backends) Host(own subnet.Lease) (primary, others []netstate.Object) {
	if b.IsZero() {
		return nil, nil
	}
	first, ok := b.of(own.BackendType)
	if !ok {
		first = b.Target()
	}
	if !b.Moving() {
		return first.Host(own), nil
	}
	known := make(map[netstate.Key]bool)
	add := func(to []netstate.Object, h Held) []netstate.Object {
		for _, o := range h.Host(own) {
			_, isRoute := o.(netstate.Route)
			if isRoute && h.Type != b.Target().Type && b.IsStrict() {
				continue // a way out for what has no route of its own
			}
			if k := o.Key(); !known[k] {
				known[k] = true
				to = append(to, o)
			}
		}
		return to
	}
	primary = add(nil, first)
	for _, h := range b.held {
		if h.Type != first.Type {
			others = add(others, h)
		}
	}
	if b.uplink != "" && own.Subnets[subnet.IPv4].IsValid() {
		// A peer may send past a tunnel what we send to it through one. Loose overrides a
		// strict setting for all devices.
		loose := netstate.Sysctl{Path: "net/ipv4/conf/" + b.uplink + "/rp_filter", Value: "2"}
		if !known[loose.Key()] {
			others = append(others, loose)
		}
	}
	return primary, others
}

// Before is what a Way takes over from the way before it.
type Before struct {
	// By is the backend by which the node sends. It is "" if none can reach the peer.
	By string
	// Confined is the config's backend, if packets may leave by no other, and have left by it.
	Confined string
	// Known is what the peer published last of each backend that the node holds. It is nil
	// while neither moves.
	Known map[string]subnet.Attrs
}

// Way is how a node reaches one peer.
type Way struct {
	Objects []netstate.Object
	Before
	// Err is why a part of the peer is unreachable by that backend. Target is why the
	// config's backend, which both have, does not reach the peer at all.
	Err, Target error
}

// HostOf returns what one of the backends needs with or without peers.
func (b Backends) HostOf(kind string, own subnet.Lease) []netstate.Object {
	h, ok := b.of(kind)
	if !ok {
		return nil
	}
	return h.Host(own)
}

// errNoBackend is returned for a peer that publishes no backend that this node holds.
var errNoBackend = errors.New("no backend in common")

// Peer returns the way to a peer, after another or the zero Before. seen is what the store
// last said of this node: what it says of the peer is at least as recent.
func (b Backends) Peer(own, peer subnet.Lease, seen *subnet.Attrs, m backend.Metrics, before Before) Way {
	if target := b.Target(); !b.Moving() && peer.Move == "" && peer.Primary(target.Type) {
		objects, err := target.Peer(own, peer, m)
		w := Way{Objects: objects, Err: err}
		if works(objects, err) {
			w.By = target.Type
			w.Confined = b.confined(w.By, before)
		} else {
			w.Target = err
		}
		return w
	}
	return b.choose(own, peer, seen, m, before)
}

// option is one backend that both nodes have.
type option struct {
	Way
	works    bool
	accepted bool // by the peer
	sure     bool // and it knows that this node has the backend
	primary  bool // of the peer
	barred   bool // to send by; the peer may still send by it
}

// choose is Peer while this node or the peer moves. A node that holds a backend receives by
// it, also from a peer that no longer publishes it: that peer may begin to send by it again
// before this node reads so.
func (b Backends) choose(own, peer subnet.Lease, seen *subnet.Attrs, m backend.Metrics, before Before) Way {
	target := b.Target().Type
	// Nothing returns to another way that was confined to the target.
	only := b.IsStrict() && (before.Confined == target || own.BackendType == target)
	// After a change of the config, what this node has read of its peers may be old: how
	// old, only its own next write shows.
	fresh := !b.Moving() || seen.Round() == b.round
	key := own.Key()
	known := make(map[string]subnet.Attrs, len(b.held))
	var options []option
	for _, h := range b.held {
		as, ok := peer.As(h.Type)
		if !ok {
			var was bool
			if as, was = before.Known[h.Type]; !was || !as.SameNode(peer.Attrs) {
				continue
			}
			as.PublicIP = peer.PublicIP
		}
		known[h.Type] = as
		there := peer
		there.Attrs = as
		o := option{primary: peer.Primary(h.Type), barred: !ok || only && h.Type != target}
		offer, _ := peer.Offer(h.Type)
		o.accepted = o.primary || offer.Accepts(key)
		o.sure = o.accepted && fresh && seen.Speaks(h.Type)
		o.By = h.Type
		o.Objects, o.Err = h.Peer(own, there, m)
		o.works = works(o.Objects, o.Err)
		options = append(options, o)
	}
	way, best := Way{}, pick(options, before.By)
	if best < 0 {
		way = Way{Err: fmt.Errorf("%w: it has %s", errNoBackend, peer.BackendType)}
		way.Before = Before{Known: known, Confined: b.confined("", before)}
		return receive(way, options, best)
	}
	way = options[best].Way
	way.Known, way.Confined = known, b.confined(way.By, before)
	if first := options[0]; first.By == target && !first.works {
		way.Target = first.Err
	}
	if !options[best].works {
		way.By = ""
	}
	return receive(way, options, best)
}

// confined returns what a way by a backend has as Confined.
func (b Backends) confined(by string, before Before) string {
	if target := b.Target().Type; b.IsStrict() && (by == target || before.Confined == target) {
		return target
	}
	return ""
}

// pick returns the first option that the peer surely accepts, else the present one, else
// the peer's primary one, else the first that works, else the first. It returns -1 if there
// is none.
func pick(options []option, by string) int {
	for _, good := range []func(option) bool{
		func(o option) bool { return o.works && o.sure },
		func(o option) bool { return o.works && o.accepted && o.By == by },
		func(o option) bool { return o.works && o.primary },
		func(o option) bool { return o.works },
		func(option) bool { return true },
	} {
		if i := slices.IndexFunc(options, func(o option) bool { return !o.barred && good(o) }); i >= 0 {
			return i
		}
	}
	return -1
}

// receive adds to way what the other options need to receive from the peer: all but
// routes to it, and commands, which may add routes.
func receive(way Way, options []option, chosen int) Way {
	if len(options) == 1 && chosen == 0 {
		return way
	}
	known := make(map[netstate.Key]bool)
	for _, o := range way.Objects {
		known[o.Key()] = true
	}
	for i, other := range options {
		if i == chosen {
			continue
		}
		for _, o := range other.Objects {
			switch o.(type) {
			case netstate.Route, netstate.Command:
				continue
			}
			if k := o.Key(); !known[k] {
				known[k] = true
				way.Objects = append(way.Objects, o)
			}
		}
	}
	return way
}

// works reports whether a backend reaches a peer at least in part.
func works(objects []netstate.Object, err error) bool {
	if err == nil {
		return true
	}
	for _, o := range objects {
		if _, isRoute := o.(netstate.Route); isRoute {
			return true
		}
	}
	return false
}
