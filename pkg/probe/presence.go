package probe

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"k8s.io/klog/v2"
)

// Who lives at an address.
type Who int

// What an Ask may come to.
const (
	Nobody Who = iota // no answer, or this very process
	Other             // a daemon with another secret
	Twin              // a daemon that has proved that it has ours
)

// Presence shows others that a daemon lives at this host's addresses on the
// underlay, and asks the same of theirs. Its answers tell nothing of the secret,
// and an answer to one challenge is worth nothing for another.
type Presence struct {
	Port uint16
	// Prove returns, in 16 bytes, what only a daemon with this one's secret can
	// return for a challenge.
	Prove func(challenge []byte) []byte

	run    []byte // of this process, by which it knows its own answers
	mu     sync.Mutex
	at     []netip.Addr
	conns  []net.PacketConn
	closed bool
	ended  chan struct{} // closed by Close
	wg     sync.WaitGroup
}

// A question is as long as its answer: mark, kind, a challenge, who answers and
// its proof.
const (
	question     = 'q'
	presence     = 'p'
	challengeAt  = kindAt + 1
	challengeLen = 24
	runAt        = challengeAt + challengeLen
	runLen       = 8
	proofAt      = runAt + runLen
	proofLen     = 16
	presenceLen  = proofAt + proofLen
)

// NewPresence makes a Presence that answers nowhere yet.
func NewPresence(port uint16, prove func(challenge []byte) []byte) *Presence {
	p := &Presence{Port: port, Prove: prove, run: make([]byte, runLen), ended: make(chan struct{})}
	_, _ = rand.Read(p.run) // it never fails
	return p
}

// Set answers at these addresses from now on, and at no others. An address need
// not be there yet.
func (p *Presence) Set(at []netip.Addr) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || slices.Equal(p.at, at) {
		return
	}
	p.close()
	p.at = slices.Clone(at)
	for _, ip := range at {
		conn, err := listen(ip, p.Port)
		if err != nil {
			klog.ErrorS(err, "Failed to listen for questions whether this node lives", "address", ip, "port", p.Port)
			p.at = nil // the next Set tries again
			continue
		}
		p.conns = append(p.conns, conn)
		p.wg.Go(func() { p.answerAll(conn) })
	}
}

// Close ends all answers. There are none of no Presence.
func (p *Presence) Close() {
	if p == nil {
		return
	}
	p.mu.Lock()
	if !p.closed {
		close(p.ended)
	}
	p.closed = true
	p.close()
	p.mu.Unlock()
	p.wg.Wait()
}

func (p *Presence) close() {
	for _, c := range p.conns {
		_ = c.Close() // it holds nothing
	}
	p.conns = nil
}

// answerAll answers until conn is closed. Beyond the most in a second it leaves
// questions to the kernel, which drops them at little cost.
func (p *Presence) answerAll(conn net.PacketConn) {
	b := make([]byte, presenceLen+1)
	var pace pace
	for {
		n, from, err := conn.ReadFrom(b)
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			continue // what became of an answer
		}
		if wait := pace.next(time.Now()); wait > 0 {
			p.rest(wait)
		}
		if p.answer(b[:n]) {
			_, _ = conn.WriteTo(b[:n], from) // who asked will see
		}
	}
}

// pace is how fast answers follow one another: no more than the most in a second.
type pace struct {
	second time.Time
	count  int
}

// next returns how long the next answer has to wait.
func (p *pace) next(now time.Time) time.Duration {
	if now.Sub(p.second) >= time.Second {
		p.second, p.count = now, 0
	}
	if p.count++; p.count <= most {
		return 0
	}
	p.second, p.count = p.second.Add(time.Second), 1
	return p.second.Sub(now)
}

// rest waits for d, or until all answers have ended.
func (p *Presence) rest(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-p.ended:
	case <-timer.C:
	}
}

// answer makes of a question its answer, where it is, and reports whether it is
// one.
func (p *Presence) answer(b []byte) bool {
	if len(b) != presenceLen || string(b[:kindAt]) != mark || b[kindAt] != question {
		return false
	}
	b[kindAt] = presence
	copy(b[runAt:], p.run)
	copy(b[proofAt:], p.Prove(b[challengeAt:proofAt]))
	return true
}

// read returns who gave an answer to a challenge.
func (p *Presence) read(b, challenge []byte) (who Who, ok bool) {
	switch {
	case len(b) != presenceLen || string(b[:kindAt]) != mark || b[kindAt] != presence || !bytes.Equal(b[challengeAt:runAt], challenge):
		return Nobody, false
	case bytes.Equal(b[runAt:proofAt], p.run):
		return Nobody, true
	case hmac.Equal(b[proofAt:], p.Prove(b[challengeAt:proofAt])):
		return Twin, true
	}
	return Other, true
}

const (
	// askAgain is when a question that may be lost is sent again, and askLimit how
	// long an answer may take.
	askAgain = 300 * time.Millisecond
	askLimit = 1500 * time.Millisecond
)

// Ask asks who lives at an address, within ctx. What says that nobody listens
// there may be forged, and ends nothing.
func (p *Presence) Ask(ctx context.Context, at netip.Addr) Who {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "udp", netip.AddrPortFrom(at, p.Port).String())
	if err != nil {
		return Nobody
	}
	defer conn.Close()
	if self, ok := conn.LocalAddr().(*net.UDPAddr); ok && self.AddrPort().Addr().Unmap() == at {
		return Nobody // that is this host
	}
	challenge := make([]byte, challengeLen)
	_, _ = rand.Read(challenge) // it never fails
	b := make([]byte, presenceLen)
	copy(b, mark)
	b[kindAt] = question
	copy(b[challengeAt:], challenge)
	in := make([]byte, presenceLen+1)
	for ctx.Err() == nil {
		_, _ = conn.Write(b) // it is sent again
		for until := time.Now().Add(askAgain); ctx.Err() == nil; {
			if conn.SetReadDeadline(until) != nil {
				return Nobody
			}
			n, err := conn.Read(in)
			if err != nil && !time.Now().Before(until) {
				break
			}
			if who, ok := p.read(in[:n], challenge); err == nil && ok {
				return who
			}
		}
	}
	return Nobody
}
