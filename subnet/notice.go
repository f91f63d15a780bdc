package subnet

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// Notice is what a cluster-wide controller says of one node: which of its subnets the
// network between the hosts itself routes to it, as a cloud's route tables do. Two
// notices are equal exactly if == reports it.
type Notice struct {
	// Network is where the node is, and its cloud lets it send packets of containers.
	// Only nodes of one network can use the routes to each other.
	Network string
	// Hosts are the public addresses of the node's lease. In etcd a notice belongs to a
	// subnet, and the next holder of the subnet is another host.
	Hosts Pair[netip.Addr]
	// Subnets are those that every table of the network routes to the node.
	Subnets Pair[netip.Prefix]
}

// NoticesPrefix is the prefix of the notices in etcd, after the network's own prefix. It
// lies between the config and the leases: a node may read it by the rights that it has.
const NoticesPrefix = "/routed/"

// NoticeAnnotation is the annotation with the notice of a Node.
const NoticeAnnotation = "tulle.net/routed"

const (
	// LongestNotice is the size limit of a notice, in bytes.
	LongestNotice  = 400
	longestNetwork = 128
)

// ErrNotice is returned for a notice that cannot be read.
var ErrNotice = errors.New("not a notice of routes")

// NoticeNetwork returns the name of a network as notices have it. Azure's networks have names
// of any letters, most of them longer than a notice allows. Such a name is replaced by its last
// part and a hash.
func NoticeNetwork(name string) string {
	if name == "" || isNetwork(name) {
		return name
	}
	last := strings.Map(func(r rune) rune {
		if r <= ' ' || r >= 0x7f {
			return -1
		}
		return r
	}, name[strings.LastIndexByte(name, '/')+1:])
	sum := sha256.Sum256([]byte(name))
	return last[:min(len(last), longestNetwork/2)] + "~" + hex.EncodeToString(sum[:8])
}

// isNetwork reports whether a notice can have the name of a network.
func isNetwork(name string) bool {
	return name != "" && len(name) <= longestNetwork && !strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r >= 0x7f })
}

// String returns the notice as stores keep it, like "vpc-0a1b 192.0.2.7 10.5.1.0/24".
// A notice without a network is empty.
func (n Notice) String() string {
	if n.Network == "" {
		return ""
	}
	text := n.Network
	for _, a := range n.Hosts {
		if a.IsValid() {
			text += " " + a.String()
		}
	}
	for _, p := range n.Subnets {
		if p.IsValid() {
			text += " " + p.String()
		}
	}
	return text
}

// ParseNotice reads a notice. The text is hostile: anything but what String returns is an
// error.
func ParseNotice(text string) (n Notice, err error) {
	if text == "" {
		return Notice{}, nil
	}
	if len(text) > LongestNotice {
		return Notice{}, fmt.Errorf("%w: %d bytes, more than the %d allowed", ErrNotice, len(text), LongestNotice)
	}
	words := strings.Split(text, " ")
	n.Network = words[0]
	if !isNetwork(n.Network) {
		return Notice{}, fmt.Errorf("%w: %.80q does not begin with the name of a network", ErrNotice, text)
	}
	words = words[1:]
	for len(words) > 0 && !strings.Contains(words[0], "/") {
		a, err := netip.ParseAddr(words[0])
		if err != nil || a.Is4In6() || a.Zone() != "" || a.IsUnspecified() {
			return Notice{}, fmt.Errorf("%w: %.50q is not the address of a host", ErrNotice, words[0])
		}
		n.Hosts[FamilyOf(a)] = a
		words = words[1:]
	}
	if n.Hosts == (Pair[netip.Addr]{}) {
		return Notice{}, fmt.Errorf("%w: %.80q names no address of the host", ErrNotice, text)
	}
	for _, word := range words {
		p, err := netip.ParsePrefix(word)
		if err != nil || p != p.Masked() || p.Addr().Is4In6() {
			return Notice{}, fmt.Errorf("%w: %.50q is not a subnet", ErrNotice, word)
		}
		n.Subnets[FamilyOf(p.Addr())] = p
	}
	if n.String() != text {
		return Notice{}, fmt.Errorf("%w: %.80q is not in the form of one", ErrNotice, text)
	}
	return n, nil
}

// Names reports whether a notice is about the holder of a lease: it has every public
// address of the lease. An earlier holder of the same subnet had another one.
func (n Notice) Names(l *Lease) bool {
	for f, a := range l.PublicIP {
		if a.IsValid() && n.Hosts[f] != a {
			return false
		}
	}
	return l.PublicIP != Pair[netip.Addr]{}
}

// Routes reports which of a peer's subnets the network routes to the peer for a node
// whose own notice is own. n is the peer's notice. A notice about another host or another
// subnet than the peer's counts for nothing.
func (n Notice) Routes(own Notice, peer *Lease) (routed Pair[bool]) {
	if n.Network == "" || n.Network != own.Network || !n.Names(peer) {
		return routed
	}
	for f, p := range peer.Subnets {
		routed[f] = p.IsValid() && n.Subnets[f] == p
	}
	return routed
}

// Notices is one message of Noticer.WatchNotices.
type Notices struct {
	// Complete reports that Set are all notices that there are. Otherwise Set were written
	// and Gone were removed.
	Complete bool
	Set      map[string]Notice // by the key of the lease
	Gone     []string
}

// Noticer is a Store that passes on the notices of a cluster-wide controller.
type Noticer interface {
	// WatchNotices calls to with all notices at first and after every gap, and with the
	// changes in between. It returns when ctx ends. A notice that cannot be read counts as
	// none. While the store is unreachable, nothing changes.
	WatchNotices(ctx context.Context, to func(Notices)) error
}
