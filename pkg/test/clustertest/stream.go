package clustertest

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tulle-net/tulle/subnet"
)

const (
	interval      = 10 * time.Millisecond
	floodInterval = time.Millisecond
	grace         = time.Second // the time limit of an answer
)

// Stream is a sequence of echo requests from one pod to another, which continues until
// it is stopped.
type Stream struct {
	name   string
	sock   *echoSocket
	to     netip.Addr
	every  time.Duration
	flood  bool
	began  time.Time
	answer chan struct{} // one-slot wake-up: an answer arrived

	quit    chan struct{}
	sending chan struct{} // closed when the sender ends
	reading chan struct{} // closed when the reader ends
	close   func()

	mu      sync.Mutex
	pings   []ping
	again   int
	lastErr error
	changed chan struct{} // closed at the next request or answer
}

// ping is one request; its number is its index.
type ping struct {
	sent     time.Duration // since the stream began
	left     time.Duration // when the kernel sent it, since the stream began
	took     time.Duration // until the kernel received the answer
	answered bool
}

// late reports whether the network, and not the machine's load, delayed the answer
// for longer than grace.
func (p ping) late() bool { return p.answered && p.took-(p.left-p.sent) > grace }

// Result is the result of a stream.
type Result struct {
	Sent int
	// Lost is the number of requests without an answer within a second.
	Lost int
	// Late is the number of lost requests that were answered later.
	Late int
	// Gaps are the periods in which requests were lost.
	Gaps []Gap
	// Slowest is the longest time that an answer took.
	Slowest time.Duration
	// Duplicates is the number of further answers to answered requests.
	Duplicates int
	// SendError is why the last request that could not be sent failed. Such a request
	// counts as sent and lost.
	SendError error

	name string
}

// Gap is consecutive lost requests.
type Gap struct {
	// Start is when its first request was sent, since the stream began.
	Start time.Duration
	// Length is the time from then until the next request that was not lost, or until the
	// end of the stream.
	Length time.Duration
	Lost   int
}

// LongestGap returns the length of the longest gap.
func (r Result) LongestGap() time.Duration {
	var longest time.Duration
	for _, g := range r.Gaps {
		longest = max(longest, g.Length)
	}
	return longest
}

// String returns the result in one line.
func (r Result) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d pings, %d lost, %d of those late, slowest answer %v", r.name, r.Sent, r.Lost, r.Late, r.Slowest.Round(time.Microsecond))
	for _, g := range r.Gaps {
		fmt.Fprintf(&b, "; %d lost for %v from %v", g.Lost, g.Length.Round(time.Millisecond), g.Start.Round(time.Millisecond))
	}
	if r.Duplicates > 0 {
		fmt.Fprintf(&b, "; %d duplicates", r.Duplicates)
	}
	if r.SendError != nil {
		fmt.Fprintf(&b, "; could not send: %v", r.SendError)
	}
	return b.String()
}

// Ping starts a stream of a small request every 10 ms.
func (c *Cluster) Ping(from, to *Pod, f subnet.Family) *Stream {
	c.t.Helper()
	return c.stream(from, to, f, interval, false)
}

// Flood starts a stream that sends a request after each answer, or 1 ms after the
// request before it.
func (c *Cluster) Flood(from, to *Pod, f subnet.Family) *Stream {
	c.t.Helper()
	return c.stream(from, to, f, floodInterval, true)
}

// PingEvery starts a stream of small requests at an interval.
func (c *Cluster) PingEvery(from, to *Pod, f subnet.Family, every time.Duration) *Stream {
	c.t.Helper()
	return c.stream(from, to, f, every, false)
}

func (c *Cluster) stream(from, to *Pod, f subnet.Family, every time.Duration, flood bool) *Stream {
	c.t.Helper()
	if !from.Addr[f].IsValid() || !to.Addr[f].IsValid() {
		c.t.Fatalf("%s or %s has no %s address", from, to, f)
	}
	sock, err := newEchoSocket(from.NS.Path, f)
	if err != nil {
		c.t.Fatal(err)
	}
	s := &Stream{
		name: fmt.Sprintf("%s to %s, %s", from, to, f),
		sock: sock, to: to.Addr[f], every: every, flood: flood, began: time.Now(),
		answer: make(chan struct{}, 1), changed: make(chan struct{}),
		quit: make(chan struct{}), sending: make(chan struct{}), reading: make(chan struct{}),
	}
	s.close = sync.OnceFunc(func() { close(s.quit) })
	c.mu.Lock()
	c.streams = append(c.streams, s)
	c.mu.Unlock()
	go s.send()
	go s.read()
	return s
}

func (s *Stream) send() {
	defer close(s.sending)
	ticker := time.NewTicker(s.every)
	defer ticker.Stop()
	for {
		s.mu.Lock()
		number := len(s.pings)
		s.pings = append(s.pings, ping{sent: time.Since(s.began)})
		s.signal()
		s.mu.Unlock()
		err := s.sock.send(s.to, uint64(number), smallest(s.sock.family))
		s.mu.Lock()
		s.pings[number].left = time.Since(s.began)
		if err != nil {
			s.lastErr = err
		}
		s.mu.Unlock()
		var next <-chan struct{}
		if s.flood {
			next = s.answer
		}
		select {
		case <-s.quit:
			return
		case <-next:
		case <-ticker.C:
		}
	}
}

func (s *Stream) read() {
	defer close(s.reading)
	buffer := make([]byte, maxPacket)
	for {
		mark, at, err := s.sock.receive(buffer)
		if err != nil {
			select {
			case <-s.quit: // the socket is closed
			default:
				s.mu.Lock()
				s.lastErr = err
				s.mu.Unlock()
			}
			return
		}
		s.book(mark, at)
	}
}

// book records an answer that the kernel received at a time.
func (s *Stream) book(mark uint64, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if mark >= uint64(len(s.pings)) {
		return // no request has this number
	}
	p := &s.pings[mark]
	if p.answered {
		s.again++
		s.signal()
		return
	}
	p.answered, p.took = true, at.Sub(s.began)-p.sent
	s.signal()
	select {
	case s.answer <- struct{}{}:
	default:
	}
}

func (s *Stream) signal() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// Sent returns the number of requests so far.
func (s *Stream) Sent() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.pings)
}

// WaitSent waits until n more requests have been sent. It returns false after a time
// limit.
func (s *Stream) WaitSent(n int) bool {
	goal := s.Sent() + n
	return s.wait(patience, func() bool { return len(s.pings) >= goal })
}

// WaitAnswered waits until n requests that are sent from now on have been answered. It
// returns false after a time limit.
func (s *Stream) WaitAnswered(n int) bool {
	from := s.Sent()
	return s.wait(patience, func() bool {
		answered := 0
		for _, p := range s.pings[from:] {
			if p.answered {
				answered++
			}
		}
		return answered >= n
	})
}

// wait waits until f returns true. It calls f with the lock held.
func (s *Stream) wait(limit time.Duration, f func() bool) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		s.mu.Lock()
		good, changed := f(), s.changed
		s.mu.Unlock()
		if good {
			return true
		}
		select {
		case <-changed:
		case <-timer.C:
			return false
		}
	}
}

// Stop ends the stream, waits a second for the last answers, and returns the result.
func (s *Stream) Stop() Result { return s.stop(grace) }

// StopPatiently is Stop for a stream whose answers may be late: it waits until each request of the
// last patience is answered, but no longer than patience.
func (s *Stream) StopPatiently() Result { return s.stop(patience) }

// stop ends the stream, waits up to limit for the answers to the requests of its last limit, and
// returns the result.
func (s *Stream) stop(limit time.Duration) Result {
	s.close()
	<-s.sending
	stopped := time.Since(s.began)
	s.wait(limit, func() bool {
		return !slices.ContainsFunc(s.pings, func(p ping) bool { return !p.answered && stopped-p.sent < limit })
	})
	s.wait(patience, func() bool { return !s.sock.pending() }) // a busy machine may be late
	s.end()
	s.mu.Lock()
	defer s.mu.Unlock()
	r := summarize(s.pings, stopped)
	r.Duplicates, r.SendError, r.name = s.again, s.lastErr, s.name
	return r
}

func summarize(pings []ping, stopped time.Duration) Result {
	r := Result{Sent: len(pings)}
	var gap *Gap
	for _, p := range pings {
		r.Slowest = max(r.Slowest, p.took)
		if p.answered && !p.late() {
			if gap != nil {
				gap.Length = p.sent - gap.Start
				gap = nil
			}
			continue
		}
		r.Lost++
		if p.answered {
			r.Late++
		}
		if gap == nil {
			r.Gaps = append(r.Gaps, Gap{Start: p.sent})
			gap = &r.Gaps[len(r.Gaps)-1]
		}
		gap.Lost++
	}
	if gap != nil {
		gap.Length = stopped - gap.Start
	}
	return r
}

// end closes the sockets at once. It may be called again.
func (s *Stream) end() {
	s.close()
	<-s.sending
	s.sock.close()
	<-s.reading
}
