package udp

import "sync/atomic"

// Reason is why a packet was dropped.
type Reason uint8

const (
	// Packets of this host's containers:
	NoRoute   Reason = iota // no peer has the destination
	Expired                 // the hop limit was reached, in either direction
	Multicast               // it is for a group, as the host's kernel itself sends some
	Malformed               // it is no whole IP packet, in either direction
	Refused                 // the kernel did not send it

	// Packets from other hosts:
	Stranger // no peer has the address that it came from
	Foreign  // its source is another host's, or its destination outside the network
	Overflow // it came faster than it was read
	Unwanted // the kernel did not take it, as while the device is down
	reasons
)

// Reasons lists all reasons.
func Reasons() []Reason {
	return []Reason{NoRoute, Expired, Multicast, Malformed, Refused, Stranger, Foreign, Overflow, Unwanted}
}

func (r Reason) String() string {
	return [reasons]string{"no-route", "expired", "multicast", "malformed", "refused", "stranger", "foreign", "overflow", "unwanted"}[r]
}

// Counts is what was moved since a link was opened.
type Counts struct {
	PacketsOut, BytesOut uint64 // that were sent to other hosts
	PacketsIn, BytesIn   uint64 // that were received from them
	Dropped              [reasons]uint64
}

// Total returns the number of all packets dropped.
func (c Counts) Total() (n uint64) {
	for _, d := range c.Dropped {
		n += d
	}
	return n
}

// plus returns the sum of both.
func (c Counts) plus(o Counts) Counts {
	c.PacketsOut += o.PacketsOut
	c.BytesOut += o.BytesOut
	c.PacketsIn += o.PacketsIn
	c.BytesIn += o.BytesIn
	for r := range c.Dropped {
		c.Dropped[r] += o.Dropped[r]
	}
	return c
}

// counters counts for one goroutine, so that none waits for another.
type counters struct {
	packets, bytes atomic.Uint64
	dropped        [reasons]atomic.Uint64
	_              [64]byte // the next has another cache line
}

func (c *counters) drop(why Reason, n int) { c.dropped[why].Add(uint64(n)) }

func (c *counters) moved(packets, bytes int) {
	c.packets.Add(uint64(packets))
	c.bytes.Add(uint64(bytes))
}
