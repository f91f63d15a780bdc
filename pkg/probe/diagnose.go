package probe

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"time"
)

// Path is the path to a peer in one family.
type Path struct {
	Peer, Name string // its lease's key, and its node's name
	// From and To are addresses in the overlay, or the hosts' own if the backend has no
	// tunnel.
	From, To netip.Addr
	// HostFrom and HostTo are the hosts' own.
	HostFrom, HostTo netip.Addr
	// Tunnel is the tunnel that packets pass, for people: "UDP port 8472". It is empty
	// without a tunnel.
	Tunnel string
	// Link is the device through which packets to the peer must leave.
	Link string
	Key  string // the peer's public key, if the tunnel encrypts; otherwise ""
	MTU  int    // the largest packet that must pass
	Tag  Tag    // of the peer
}

// over reports whether the path is in an overlay, where daemons answer.
func (p Path) over() bool { return p.To != p.HostTo }

// Cause is why probes fail.
type Cause string

// The causes that probes can distinguish.
const (
	Well          Cause = ""
	Down          Cause = "down"           // the host does not answer at all
	Filtered      Cause = "filtered"       // the host answers, and nothing passes the tunnel
	SmallMTU      Cause = "mtu"            // small packets pass, large ones do not
	Checksums     Cause = "checksums"      // only packets without a checksum pass, and those with one that is theirs
	PeerChecksums Cause = "peer-checksums" // the same, of the peer's host
	Diverted      Cause = "diverted"       // this host sends them elsewhere
	Unsent        Cause = "unsent"         // this host itself cannot send them
	NoHandshake   Cause = "no-handshake"   // the tunnel encrypts, and nothing of the peer's arrives
	Keys          Cause = "keys"           // handshakes arrive, and none is completed
	ClockBack     Cause = "clock-back"     // this host's clock went back, so peers refuse its handshakes
)

// Causes are all causes except Well.
func Causes() []Cause {
	return []Cause{Down, Filtered, SmallMTU, Checksums, PeerChecksums, Diverted, Unsent, NoHandshake, Keys, ClockBack}
}

// Finding is the result of a path's diagnosis.
type Finding struct {
	Path
	Cause  Cause
	Answer        // of a small packet, if Cause is Well or SmallMTU
	Passes int    // with SmallMTU, the largest packet that passed
	By     string // with Diverted, the device through which they leave
	Err    error  // with Unsent, why
	// Session is what was known of the encrypted session when nothing passed; the zero
	// Session if the tunnel does not encrypt.
	Session Session
	Back    time.Duration // with ClockBack, by how much
}

// Why returns the cause for people, or "" if there is none.
func (f Finding) Why() string {
	switch f.Cause {
	case Down:
		if !f.over() {
			return fmt.Sprintf("its host does not answer at %s: it is down, or the network between the hosts is", f.HostTo)
		}
		return fmt.Sprintf("its host does not answer, neither at %s nor in the network: it is down, or the network between the hosts is", f.HostTo)
	case Filtered:
		if f.Tunnel == "" {
			return fmt.Sprintf("its host answers at %s, but packets with addresses of the network do not arrive: they are filtered on the way, in clouds by their check of addresses: switch the source/destination check off (AWS), or IP forwarding (Azure) or canIpForward (Google) on", f.HostTo)
		}
		return fmt.Sprintf("its host answers at %s, but nothing comes through the tunnel: %s is filtered on the way, or no tunnel runs there", f.HostTo, f.Tunnel)
	case SmallMTU:
		return fmt.Sprintf("packets of up to %d bytes pass, but not of %d: an MTU on the way is too small; raise it, or set Backend.MTU in the network's config", f.Passes, f.MTU)
	case Checksums:
		return "only packets without a checksum get there: this host's network card or its driver breaks those of the tunnel; set Backend.Offload to auto or off in the network's config"
	case PeerChecksums:
		return "only packets without a checksum come back: that host's network card or its driver breaks those of the tunnel; set Backend.Offload to auto or off in the network's config"
	case Diverted:
		if f.By == "" {
			return fmt.Sprintf("this host has no route to %s: the one through %s is missing, or another route or rule comes first (ip route get %s; ip rule)", f.To, f.Link, f.To)
		}
		return fmt.Sprintf("this host sends to %s through %s and not through %s: the route there is missing, or another route or rule comes first (ip route get %s; ip rule)", f.To, f.By, f.Link, f.To)
	case Unsent:
		return fmt.Sprintf("this host cannot send to %s: %v", f.To, f.Err)
	}
	return f.whyNoSession()
}

const (
	small    = 80 // bytes of a small packet
	patience = 500 * time.Millisecond
	tries    = 3
)

// Router returns the device through which this host would send to an address now, or
// "" if it would not send.
type Router func(ctx context.Context, to netip.Addr) (link string, err error)

// diagnose finds the cause on a path. It takes seven seconds at most.
func diagnose(ctx context.Context, e Echoer, r Router, p Path) Finding {
	f := diagnosePath(ctx, e, p)
	if f.Cause != Down && f.Cause != Filtered && f.Cause != Unsent {
		return f
	}
	if by, err := r(ctx, p.To); err == nil && by != p.Link {
		f.Cause, f.By = Diverted, by
	}
	return f
}

func diagnosePath(ctx context.Context, e Echoer, p Path) Finding {
	d := diagnosis{e, p}
	first := Ping
	if p.over() {
		first = UDP
	}
	f := Finding{Path: p}
	var err error
	if f.Answer, err = d.echo(ctx, first, small); err == nil {
		return d.large(ctx, first, f)
	}
	if ctx.Err() != nil {
		return f
	}
	if !p.over() {
		return d.lost(f, err)
	}
	var bare, half, ping, host error
	var pinged Answer
	var wg sync.WaitGroup
	wg.Go(func() { _, bare = d.echo(ctx, Bare, small) })
	wg.Go(func() { _, half = d.echo(ctx, HalfBare, small) })
	wg.Go(func() { pinged, ping = d.echo(ctx, Ping, small) })
	wg.Go(func() { _, host = (diagnosis{e, p.host()}).echo(ctx, Ping, small) })
	wg.Wait()
	if half == nil || bare == nil {
		if f.Cause = d.checksums(ctx); f.Cause != Well || ctx.Err() != nil {
			return f
		}
	}
	switch {
	case ping == nil: // the daemons' own port is filtered or flooded, which does no harm
		f.Answer = pinged
		return d.large(ctx, Ping, f)
	case host == nil:
		f.Cause = Filtered
		return f
	default:
		return d.lost(f, err)
	}
}

// diagnosis is the diagnosis of one path.
type diagnosis struct {
	Echoer
	path Path
}

// host returns the path between the hosts themselves.
func (p Path) host() Path {
	p.From, p.To = p.HostFrom, p.HostTo
	return p
}

func (d diagnosis) lost(f Finding, err error) Finding {
	f.Cause = Down
	if !isLost(err) {
		f.Cause, f.Err = Unsent, err
	}
	return f
}

// large tries a large packet after a small one of the same kind has passed.
func (d diagnosis) large(ctx context.Context, kind Kind, f Finding) Finding {
	if d.path.MTU <= small {
		return f
	}
	if _, err := d.echo(ctx, kind, d.path.MTU); err == nil || ctx.Err() != nil {
		return f
	}
	low, high := small, d.path.MTU // the largest size that passed, and the smallest that did not
	for range 3 {                  // then the result is exact
		low, high = d.between(ctx, kind, low, high)
	}
	if ctx.Err() != nil {
		return Finding{Path: f.Path}
	}
	f.Cause, f.Passes = SmallMTU, low
	return f
}

// between narrows the size that passes. It tries many sizes at once.
func (d diagnosis) between(ctx context.Context, kind Kind, low, high int) (int, int) {
	const steps = 16
	var passed [steps]bool
	size := func(i int) int { return low + (high-low)*i/steps }
	var wg sync.WaitGroup
	for i := 1; i < steps; i++ {
		if passed[i] = size(i) == low; passed[i] {
			continue
		}
		wg.Go(func() {
			_, err := d.once(ctx, kind, size(i))
			passed[i] = err == nil
		})
	}
	wg.Wait()
	for i := steps - 1; i > 0; i-- {
		if passed[i] {
			return size(i), size(i + 1)
		}
	}
	return low, size(1)
}

// echo tries several times: any path loses a packet now and then.
func (d diagnosis) echo(ctx context.Context, kind Kind, size int) (a Answer, err error) {
	for range tries {
		if a, err = d.once(ctx, kind, size); err == nil || !isLost(err) || ctx.Err() != nil {
			break
		}
	}
	return a, err
}

func (d diagnosis) once(ctx context.Context, kind Kind, size int) (Answer, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errLost)
	defer cancel()
	return d.Echo(ctx, Try{Kind: kind, From: d.path.From, To: d.path.To, Size: size, Tag: d.path.Tag})
}
