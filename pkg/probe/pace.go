package probe

import (
	"errors"
	"net"
	"net/netip"
	"time"
)

// maxPackets is how many packets a socket reads in a second: far more than peers send,
// and little for a flood.
const maxPackets = 500

// pace limits packets to so many a second. Above the limit the reader stops
// reading, and the kernel drops further packets at little cost.
type pace struct {
	second time.Time
	count  int
}

// next returns how long the next packet has to wait.
func (p *pace) next(now time.Time) time.Duration {
	if now.Sub(p.second) >= time.Second {
		p.second, p.count = now, 0
	}
	if p.count++; p.count <= maxPackets {
		return 0
	}
	p.second, p.count = p.second.Add(time.Second), 1
	return p.second.Sub(now)
}

// readAll calls answer with each packet of conn and the time at which it was read,
// until conn is closed. A packet has at most size bytes.
func readAll(conn *net.UDPConn, size int, ended <-chan struct{}, answer func(packet []byte, from netip.AddrPort, at time.Time)) {
	b := make([]byte, size)
	var pace pace
	for {
		n, from, err := conn.ReadFromUDPAddrPort(b)
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			continue // an ICMP error for an earlier answer
		}
		now := time.Now()
		if wait := pace.next(now); wait > 0 {
			rest(wait, ended)
		}
		answer(b[:n], from, now)
	}
}

// rest waits for d, or until ended is closed.
func rest(d time.Duration, ended <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
	}
}
