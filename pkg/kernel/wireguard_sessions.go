package kernel

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/vishvananda/netlink"

	"github.com/tulle-net/tulle/pkg/netstate"
)

// Sessions returns the sessions of wireguard links, and what these links dropped. Of the
// TUN device of a program it returns what went through it. It skips links that do not exist
// and links of other kinds.
func (k *Kernel) Sessions(ctx context.Context, links []string) (netstate.Sessions, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	var all netstate.Sessions
	for _, name := range links {
		body, err := k.conn.findLink(name, 0)
		if errors.Is(err, syscall.ENODEV) {
			continue
		}
		if err != nil {
			return netstate.Sessions{}, err
		}
		l, err := netlink.LinkDeserialize(nil, body)
		if err != nil {
			return netstate.Sessions{}, fmt.Errorf("read link %s: %w", name, err)
		}
		s := l.Attrs().Statistics
		if _, isTUN := l.(*netlink.Tuntap); isTUN && s != nil { // its program knows the rest
			all.Links = append(all.Links, netstate.Traffic{
				Link: name, Received: s.RxBytes, Sent: s.TxBytes, Dropped: netstate.SessionDrops{NoSession: s.TxDropped},
			})
		}
		if l.Type() != netstate.TunnelWireGuard {
			continue
		}
		begin := len(all.Peers)
		err = k.readWireGuard(ctx, name, func() { all.Peers = all.Peers[:begin] }, func(got wgMessage) {
			for _, p := range got.peers {
				all.Peers = append(all.Peers, netstate.Session{
					Link: name, Peer: p.Peer, Endpoint: p.Endpoint, Handshake: p.handshake, Received: p.received, Sent: p.sent,
				})
			}
		})
		switch {
		case errors.Is(err, syscall.ENODEV): // it was deleted meanwhile
			all.Peers = all.Peers[:begin]
		case err != nil:
			return netstate.Sessions{}, err
		}
		if s != nil {
			all.Links = append(all.Links, netstate.Traffic{Link: name, Received: s.RxBytes, Sent: s.TxBytes, Dropped: netstate.SessionDrops{
				NoPeer: s.TxErrors, NoSession: s.TxDropped, WrongSource: s.RxFrameErrors, Malformed: s.RxLengthErrors,
			}})
		}
	}
	return all, nil
}
