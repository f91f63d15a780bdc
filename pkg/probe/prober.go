package probe

import (
	"cmp"
	"context"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sort"
	"sync"
	"time"

	"k8s.io/klog/v2"
)

// Source knows the peers.
type Source interface {
	// Peers returns the keys of all peers.
	Peers(ctx context.Context) []string
	// Paths returns the paths to some of them, and none to one that has gone.
	Paths(ctx context.Context, peers []string) []Path
	// Sessions returns the state of the encrypted sessions that paths need, in their order.
	Sessions(ctx context.Context, paths []Path) []Session
	// Route is a Router.
	Route(ctx context.Context, to netip.Addr) (link string, err error)
}

const (
	// sample is the number of peers in a round, and of further ones that failed in the
	// last.
	sample = 8
	// firstRound is the delay of the first round.
	firstRound = time.Second
	// retryWindow is how long a failing peer is probed again in each round, and
	// retryPause the interval after that.
	retryWindow, retryPause = time.Minute, 30 * time.Second
	// mostLogged is how many failing peers the log names one by one.
	mostLogged = 10
	// memory is how many peers without a fault are remembered.
	memory = 1000
)

// Prober probes a few peers in each round.
type Prober struct {
	Interval time.Duration
	Echoer   Echoer
	mu       sync.Mutex
	turn     chan struct{} // holds a value during a round and during a trial
	peers    map[string]Result
	counted  Counts
	ahead    []clock // those probed last
	clock    latest  // of this host
	logged   int     // how many failing peers the log has named
	many     bool    // the log has reported that there are more
}

// Result is what is known of a peer: the worst of its paths.
type Result struct {
	Finding
	At    time.Time // of the last probe
	Since time.Time // since when the cause is this
	Lasts bool      // it was found in two successive rounds
	// Rounds is how often the cause was found in a row.
	Rounds int
	logged bool // the log has it
}

// proof is the number of successive rounds that must find a cause before it may
// change how this host sends.
const proof = 3

// Proven reports whether it is certain enough that this host breaks checksums to act
// upon it.
func (r Result) Proven() bool { return r.Cause == Checksums && r.Rounds >= proof }

// Counts are the results of all probes.
type Counts struct {
	Well    uint64
	Failed  map[Cause]uint64
	Latency Histogram
}

// Run probes until ctx ends. It calls changed after each round that changed a peer:
// it fails, fails for another cause, fails for the second time, has failed often
// enough to be proven, or answers again.
func (p *Prober) Run(ctx context.Context, s Source, changed func()) {
	timer := time.NewTimer(min(p.Interval, firstRound))
	defer timer.Stop()
	var cycle []string
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			timer.Reset(p.Interval)
		}
		if len(cycle) == 0 {
			cycle = s.Peers(ctx)
			rand.Shuffle(len(cycle), func(i, j int) { cycle[i], cycle[j] = cycle[j], cycle[i] })
			p.forget(cycle)
		}
		n := min(sample, len(cycle))
		round := append(cycle[:n:n], p.suspects(time.Now())...)
		cycle = cycle[n:]
		slices.Sort(round)
		if p.round(ctx, s, slices.Compact(round)) {
			changed()
		}
	}
}

// begin waits until neither a round nor a trial runs, and keeps others from starting
// until end is called. It returns false if ctx ends first.
func (p *Prober) begin(ctx context.Context) (end func(), ok bool) {
	p.mu.Lock()
	if p.turn == nil {
		p.turn = make(chan struct{}, 1)
	}
	turn := p.turn
	p.mu.Unlock()
	select {
	case turn <- struct{}{}:
		return func() { <-turn }, true
	case <-ctx.Done():
		return nil, false
	}
}

// round probes peers, all at once, and reports whether a result is new.
func (p *Prober) round(ctx context.Context, s Source, peers []string) bool {
	end, ok := p.begin(ctx)
	if !ok {
		return false
	}
	defer end()
	paths := s.Paths(ctx, peers)
	findings := make([]Finding, len(paths))
	var wg sync.WaitGroup
	for i, path := range paths {
		wg.Go(func() { findings[i] = diagnose(ctx, p.Echoer, s.Route, path) })
	}
	wg.Wait()
	p.explain(ctx, s, findings, time.Now())
	return ctx.Err() == nil && p.take(peers, findings, time.Now())
}

// suspects returns the peers that failed last, the one probed longest ago first.
// Those that have failed for long can wait.
func (p *Prober) suspects(now time.Time) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []string
	for key, r := range p.peers {
		if r.Cause != Well && (now.Sub(r.Since) < retryWindow || now.Sub(r.At) >= retryPause) {
			all = append(all, key)
		}
	}
	slices.SortFunc(all, func(a, b string) int { return p.peers[a].At.Compare(p.peers[b].At) })
	return all[:min(sample, len(all))]
}

// take records results, and reports whether one is new.
func (p *Prober) take(peers []string, findings []Finding, now time.Time) (news bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.peers == nil {
		p.peers, p.counted.Failed = make(map[string]Result), make(map[Cause]uint64)
	}
	worst := make(map[string]Finding)
	for _, f := range findings {
		p.count(f)
		if w, seen := worst[f.Peer]; !seen || w.Cause == Well {
			worst[f.Peer] = f
		}
	}
	for _, key := range peers {
		f, tried := worst[key]
		before, known := p.peers[key]
		if !tried { // the peer has gone, or has no path any more
			p.drop(key)
			news = news || known && before.Cause != Well
			continue
		}
		r := Result{Finding: f, At: now, Since: now, Rounds: 1, logged: before.logged}
		if known && before.Cause == f.Cause {
			r.Since = before.Since
			if before.Tunnel == f.Tunnel { // what was found on another way proves nothing about this one
				r.Lasts, r.Rounds = f.Cause != Well, before.Rounds+1
			}
		}
		news = news || f.Cause != before.Cause || r.Lasts != before.Lasts || r.Proven() != before.Proven()
		p.logChange(&r)
		p.peers[key] = r
	}
	p.trim()
	return news
}

func (p *Prober) count(f Finding) {
	if f.Cause != Well {
		p.counted.Failed[f.Cause]++
		return
	}
	p.counted.Well++
	p.counted.Latency.add(f.RTT)
	if f.Clock {
		p.ahead = slices.DeleteFunc(p.ahead, func(c clock) bool { return c.peer == f.Peer })
		p.ahead = append(p.ahead, clock{f.Peer, cmp.Or(f.Name, f.Peer), f.Ahead})
		p.ahead = p.ahead[max(0, len(p.ahead)-clocks):]
	}
}

// logChange logs a lasting failure, and its end. If many peers fail, it logs that
// once.
func (p *Prober) logChange(r *Result) {
	switch {
	case r.Cause == Well && r.logged:
		klog.InfoS("Probes of a peer pass again", "key", r.Peer, "node", r.Name)
		r.logged = false
		p.logged--
	case !r.Lasts || r.logged:
	case p.logged < mostLogged:
		klog.InfoS("Probes of a peer fail", "key", r.Peer, "node", r.Name, "reason", r.Why())
		r.logged = true
		p.logged++
		p.many = false
	case !p.many:
		klog.InfoS("Probes of many peers fail; no longer logging each", "logged", mostLogged)
		p.many = true
	}
}

// forget forgets peers that no longer exist.
func (p *Prober) forget(all []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.peers)+len(p.ahead) == 0 {
		return
	}
	there := make(map[string]bool, len(all))
	for _, key := range all {
		there[key] = true
	}
	for key := range p.peers {
		if !there[key] {
			p.drop(key)
		}
	}
	p.ahead = slices.DeleteFunc(p.ahead, func(c clock) bool { return !there[c.peer] })
}

func (p *Prober) drop(key string) {
	if p.peers[key].logged {
		p.logged--
	}
	delete(p.peers, key)
}

// trim limits what is remembered: all failing peers, and some of the others.
func (p *Prober) trim() {
	for key, r := range p.peers {
		if len(p.peers) <= memory {
			return
		}
		if r.Cause == Well {
			delete(p.peers, key)
		}
	}
}

// Of returns what is known of a peer.
func (p *Prober) Of(peer string) (Result, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r, known := p.peers[peer]
	return r, known
}

// Since returns how many peers were probed in the overlay since t, and how many of
// them passed. Probes between the hosts themselves do not count: they do not show
// whether a peer knows this node.
func (p *Prober) Since(t time.Time) (passed, tried int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.peers {
		if !r.At.After(t) || !r.over() {
			continue
		}
		tried++
		if r.Cause == Well {
			passed++
		}
	}
	return passed, tried
}

// Summary is what is known of all peers.
type Summary struct {
	Counts
	Known   int // peers
	Failing []Result
	Clocks  []string // the problems with clocks, for people
}

// Summary returns a summary. The failing peers are in the order of their keys.
func (p *Prober) Summary() Summary {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := Summary{Known: len(p.peers), Counts: p.counted.clone(), Clocks: wrongClocks(p.ahead)}
	for _, r := range p.peers {
		if r.Cause != Well {
			s.Failing = append(s.Failing, r)
		}
	}
	sort.Slice(s.Failing, func(i, j int) bool { return s.Failing[i].Peer < s.Failing[j].Peer })
	return s
}
