package move

import (
	"errors"
	"net/netip"

	"github.com/tulle-net/tulle/backend"
	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/subnet"
)

// fake is a backend that receives only from peers that it knows, as wireguard does.
type fake struct {
	kind   string
	mtu    int
	strict bool
}

var errUnreachable = errors.New("unreachable")

func (f fake) Publish() subnet.Attrs {
	return subnet.Attrs{
		PublicIP: subnet.Pair[netip.Addr]{subnet.IPv4: netip.MustParseAddr("192.0.2.1")}, BackendType: f.kind,
		BackendData: subnet.Pair[string]{subnet.IPv4: `{"Of":"` + f.kind + `"}`},
	}
}

func (f fake) MTU() int { return f.mtu }

func (fake) Settings() any { return struct{}{} }

func (f fake) Host(subnet.Lease) []netstate.Object {
	return []netstate.Object{
		netstate.Link{Name: f.kind}, netstate.Sysctl{Path: "net/ipv4/conf/all/forwarding", Value: "1"},
		netstate.Route{Dst: netip.MustParsePrefix("10.5.0.0/16"), Link: f.kind},
	}
}

// Peer returns a route, and what is needed to receive from the peer.
func (f fake) Peer(_, peer subnet.Lease, _ backend.Metrics) ([]netstate.Object, error) {
	if peer.BackendType != f.kind || peer.BackendData[subnet.IPv4] == "" {
		return nil, errUnreachable
	}
	to := peer.Subnets[subnet.IPv4]
	return []netstate.Object{
		netstate.Neigh{Link: f.kind, IP: to.Addr()},
		netstate.Route{Dst: to, Link: f.kind},
	}, nil
}

// Confined implements backend.Confiner.
func (f fake) Confined() (devices subnet.Pair[[2]string]) {
	if f.strict {
		devices[subnet.IPv4] = [2]string{f.kind}
	}
	return devices
}

// held returns backends of some types. A type with "!" is strict.
func held(kinds ...string) Backends {
	var all []Held
	for i, kind := range kinds {
		f := fake{kind: kind, mtu: 1500 - 10*i}
		if kind[len(kind)-1] == '!' {
			f.kind, f.strict = kind[:len(kind)-1], true
		}
		all = append(all, Held{f.kind, f})
	}
	return New(0, "eth0", all...)
}

func prefix(n int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 5, byte(n), 0}), 24)
}

// lease returns the lease of a node with a primary backend and offers, ready ones without
// exceptions. An ID of "" is flannel's.
func lease(n int, id, primary string, m subnet.Move) subnet.Lease {
	l := subnet.Lease{Subnets: subnet.Pair[netip.Prefix]{subnet.IPv4: prefix(n)}, Attrs: fake{kind: primary}.Publish()}
	l.Node.ID = id
	for i := range m.Offers {
		m.Offers[i].Data = []byte(`{"Of":"` + m.Offers[i].Type + `"}`)
	}
	l.Move = subnet.FormatMove(m)
	return l
}

// linkOf returns the link of the route to a subnet, and the links on which packets from
// it are accepted.
func linkOf(objects []netstate.Object, of netip.Prefix) (out string, in map[string]bool) {
	in = make(map[string]bool)
	for _, o := range objects {
		switch o := o.(type) {
		case netstate.Route:
			if o.Dst == of {
				out = o.Link
			}
		case netstate.Neigh:
			if o.IP == of.Addr() {
				in[o.Link] = true
			}
		}
	}
	return out, in
}
