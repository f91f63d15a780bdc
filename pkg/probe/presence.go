package probe

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/klog/v2"
)

// Resident is the kind of daemon at an address.
type Resident int

// The results of Ask.
const (
	NoDaemon    Resident = iota // no answer, or this very process
	OtherDaemon                 // a daemon with another secret
	Twin                        // a daemon that proved that it has our secret
)

// Presence answers queries at this host's addresses on the underlay that a daemon
// lives here, and sends such queries to other hosts. Its answers reveal nothing of
// the secret, and an answer to one challenge is useless for another.
//
// A host sends a query before it is a peer, so no list of addresses can restrict the
// senders. The sender has read a lease, and uses a key from it, like the asked host's
// instance. The kernel drops a query without such a key, at no cost for this process.
type Presence struct {
	Port uint16
	// Prove returns 16 bytes that only a daemon with this one's secret can compute
	// from a challenge.
	Prove func(challenge []byte) []byte

	run    []byte // random; marks this process's own answers
	mu     sync.Mutex
	at     []netip.Addr
	keys   []string
	conns  []*net.UDPConn
	closed bool
	ended  chan struct{} // closed by Close
	wg     sync.WaitGroup
}

// A question is as long as its answer. Both begin with magic, kind and challenge.
// There follow, in a question, the key's tag, and a proof that the asker knows the
// key; in an answer, the answering run, and its proof.
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

// NewPresence returns a Presence that answers nowhere yet.
func NewPresence(port uint16, prove func(challenge []byte) []byte) *Presence {
	p := &Presence{Port: port, Prove: prove, run: make([]byte, runLen), ended: make(chan struct{})}
	_, _ = rand.Read(p.run) // it never fails
	return p
}

// Set makes p answer at these addresses and no others, to questions by one of keys.
// An address need not exist yet.
func (p *Presence) Set(at []netip.Addr, keys []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || slices.Equal(p.at, at) && slices.Equal(p.keys, keys) {
		return
	}
	p.close()
	p.at, p.keys = slices.Clone(at), slices.Clone(keys)
	accepted := newKeys(keys)
	for _, ip := range at {
		conn, err := listen(ip, p.Port, func(fd uintptr) error {
			return questionFilter(accepted).attach(fd, unix.SO_ATTACH_FILTER)
		})
		if err != nil {
			klog.ErrorS(err, "Failed to listen for other hosts' questions whether this one lives", "address", ip, "port", p.Port)
			p.at = nil // the next Set tries again
			continue
		}
		p.conns = append(p.conns, conn)
		p.wg.Go(func() { p.answerAll(conn, accepted) })
	}
}

// Close ends all answers. A nil Presence has none.
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
		_ = c.Close() // nothing is buffered
	}
	p.conns = nil
}

// answerAll answers until conn is closed.
func (p *Presence) answerAll(conn *net.UDPConn, accepted []key) {
	readAll(conn, presenceLen+1, p.ended, func(b []byte, from netip.AddrPort, _ time.Time) {
		if p.answer(b, accepted) {
			_, _ = conn.WriteToUDPAddrPort(b, from) // the asker repeats a lost question
		}
	})
}

// answer turns a question by one of the accepted keys into its answer, in place. It
// reports whether b is such a question.
func (p *Presence) answer(b []byte, accepted []key) bool {
	if len(b) != presenceLen || string(b[:kindAt]) != magic || b[kindAt] != question {
		return false
	}
	by := slices.IndexFunc(accepted, func(k key) bool { return string(k.tag[:]) == string(b[tagAt:knowsAt]) })
	if by < 0 || !hmac.Equal(accepted[by].knows(b), b[knowsAt:]) {
		return false
	}
	b[kindAt] = presence
	copy(b[runAt:], p.run)
	copy(b[proofAt:], p.Prove(b[challengeAt:proofAt]))
	return true
}

// read returns what an answer to a challenge proves; ok is false for anything else.
func (p *Presence) read(b, challenge []byte) (who Resident, ok bool) {
	switch {
	case len(b) != presenceLen || string(b[:kindAt]) != magic || b[kindAt] != presence || !bytes.Equal(b[challengeAt:runAt], challenge):
		return NoDaemon, false
	case bytes.Equal(b[runAt:proofAt], p.run):
		return NoDaemon, true
	case hmac.Equal(b[proofAt:], p.Prove(b[challengeAt:proofAt])):
		return Twin, true
	}
	return OtherDaemon, true
}

const (
	// askAgain is the time between two copies of a question, and askLimit the time
	// for an answer.
	askAgain = 300 * time.Millisecond
	askLimit = 1500 * time.Millisecond
)

// Ask asks what lives at an address, within ctx, by keys from the lease of the asked
// host. An ICMP error may be forged, and does not end the question.
func (p *Presence) Ask(ctx context.Context, at netip.Addr, keys []string) Resident {
	if len(keys) == 0 {
		return NoDaemon // such a host does not answer
	}
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "udp", netip.AddrPortFrom(at, p.Port).String())
	if err != nil {
		return NoDaemon
	}
	defer conn.Close()
	if self, ok := conn.LocalAddr().(*net.UDPAddr); ok && self.AddrPort().Addr().Unmap() == at {
		return NoDaemon // that is this host
	}
	challenge := make([]byte, challengeLen)
	_, _ = rand.Read(challenge) // it never fails
	in := make([]byte, presenceLen+1)
	for ctx.Err() == nil {
		for _, k := range newKeys(keys) {
			_, _ = conn.Write(newQuestion(challenge, k)) // a lost one is repeated
		}
		for until := time.Now().Add(askAgain); ctx.Err() == nil; {
			if conn.SetReadDeadline(until) != nil {
				return NoDaemon
			}
			n, err := conn.Read(in)
			if err != nil && !time.Now().Before(until) {
				break
			}
			if err != nil {
				continue
			}
			if who, ok := p.read(in[:n], challenge); ok {
				return who
			}
		}
	}
	return NoDaemon
}
