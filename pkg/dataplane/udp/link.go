package udp

import (
	"fmt"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/tulle-net/tulle/pkg/dataplane/packet"
	"github.com/tulle-net/tulle/pkg/netstate"
)

// link is one link while its packets are moved.
type link struct {
	name      string
	is        netstate.UDP
	v6        bool
	network   span
	own       span // of this host's containers; empty if there is none
	source    netip.Addr
	complains packet.Addr // source, from which peers send ICMP errors, too

	closing atomic.Bool
	table   atomic.Pointer[table]
	queues  []queue
	failed  atomic.Bool
	running sync.WaitGroup
}

// queue is one queue of a link.
type queue struct {
	tun       *os.File
	socket    *socket
	sent      *counters
	received  *counters
	overflows uint64 // of the socket, once it is closed
}

// maxQueues limits the memory of a link, and how many processors it uses.
const maxQueues = 8

// openLink begins to move packets of an existing device. stopped is called if that ends by
// itself.
func openLink(l netstate.Link, queues int, peers *table, stopped func(*link, error)) (*link, error) {
	is := &link{
		name: l.Name, is: l.UDP, v6: l.UDP.Network.Addr().Is6(),
		network: spanOf(l.UDP.Network), source: l.UDP.Source,
	}
	if l.UDP.Own.IsValid() {
		is.own = spanOf(l.UDP.Own)
	}
	if is.source.IsValid() {
		is.complains = addrOf(is.source)
	}
	is.table.Store(peers)
	if err := is.start(queues, stopped); err != nil {
		is.close()
		return nil, err
	}
	return is, nil
}

func (l *link) start(queues int, stopped func(*link, error)) error {
	type both struct {
		s *sender
		r *receiver
	}
	var all []both
	if queues > 1 {
		if err := checkFree(l.is.Local); err != nil {
			return err
		}
	}
	for range queues {
		socket, gso, err := openSocket(l.is.Local, queues > 1)
		if err != nil {
			return err
		}
		q := queue{socket: socket, sent: new(counters), received: new(counters)}
		l.queues = append(l.queues, q)
		tun, udp, err := openTUN(l.name)
		if err != nil {
			return err
		}
		l.queues[len(l.queues)-1].tun = tun
		fromTUN, err := tun.SyscallConn()
		if err != nil {
			return err
		}
		all = append(all, both{newSender(l, fromTUN, socket, gso, q.sent), newReceiver(l, socket, fromTUN, udp, q.received)})
	}
	for _, q := range all {
		for _, run := range []func() error{q.s.run, q.r.run} {
			l.running.Go(func() {
				if err := run(); !l.closing.Load() && l.failed.CompareAndSwap(false, true) {
					stopped(l, err)
				}
			})
		}
	}
	return nil
}

// isOwn reports whether an address is one of this host's containers.
func (l *link) isOwn(a packet.Addr) bool { return l.own != span{} && l.own.contains(a) }

// moves reports whether the link still moves the packets of the device with its name.
func (l *link) moves() bool {
	return !l.failed.Load() && isOn(l.queues[0].tun, l.name)
}

// close ends everything, and waits for it.
func (l *link) close() {
	l.closing.Store(true)
	for i := range l.queues {
		q := &l.queues[i]
		if q.tun != nil {
			q.tun.Close()
		}
		q.socket.stop()
	}
	l.running.Wait()
	for i := range l.queues {
		q := &l.queues[i]
		q.overflows = q.socket.overflows()
		q.socket.close()
	}
}

// counts returns what was moved so far.
func (l *link) counts() (c Counts) {
	for _, q := range l.queues {
		c.PacketsOut += q.sent.packets.Load()
		c.BytesOut += q.sent.bytes.Load()
		c.PacketsIn += q.received.packets.Load()
		c.BytesIn += q.received.bytes.Load()
		for r := range c.Dropped {
			c.Dropped[r] += q.sent.dropped[r].Load() + q.received.dropped[r].Load()
		}
		c.Dropped[Overflow] += q.overflows + q.socket.overflows()
	}
	return c
}

// checkUDP returns why packets cannot be moved as a link says.
func checkUDP(l netstate.Link) error {
	is := l.UDP
	if !is.Local.IsValid() || is.Local.Port() == 0 || !is.Network.IsValid() || is.Network != is.Network.Masked() {
		return fmt.Errorf("link %s: %w: it has no address, port or network", l.Name, syscall.EINVAL)
	}
	if is.Source.IsValid() && is.Source.Is4() != is.Network.Addr().Is4() {
		return fmt.Errorf("link %s: %w: the source %s is not of the network's family", l.Name, syscall.EINVAL, is.Source)
	}
	if is.Own.IsValid() && (is.Own != is.Own.Masked() || is.Own.Bits() < is.Network.Bits() || !is.Network.Contains(is.Own.Addr())) {
		return fmt.Errorf("link %s: %w: the subnet %s is not one of the network %s", l.Name, syscall.EINVAL, is.Own, is.Network)
	}
	return nil
}
