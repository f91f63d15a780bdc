package probe

import (
	"context"
	"math/rand/v2"
	"sync"
)

// Verdict is what a trial shows of the checksums that this host's interface puts into
// tunnels.
type Verdict int

// The verdicts of a trial.
const (
	NoVerdict Verdict = iota // too few packets came back
	Sound                    // packets with a checksum arrive
	Broken                   // only packets without one arrive
)

// trialWaves is how many waves of packets a trial sends after enable.
const trialWaves = 2

// trial is the result of one peer's packets in a trial, by their kind.
type trial struct {
	diagnosis
	sent, returned [HalfBare + 1]int
}

// trialKinds are the kinds of packets in a trial. Of HalfBare only the request has a
// checksum: whether it returns depends on this host's interface, and not on the peer's.
var trialKinds = []Kind{HalfBare, Bare}

// Try calls enable, which leaves checksums to this host's interface, and checks
// whether they are right. It calls enable only if a few healthy peers answer before
// that, and probes those again. Each answer repeats its request's random number, so
// only a host that sees the requests can forge one. Packets that are lost for another
// reason, as in a flood, lead to no verdict.
//
// Try takes no longer than two waves after enable, and one if no packet with a
// checksum returns: until the caller undoes enable, containers may lose what they
// send. No round of probes runs meanwhile.
func (p *Prober) Try(ctx context.Context, s Source, enable func(context.Context) bool) Verdict {
	end, ok := p.begin(ctx)
	if !ok {
		return NoVerdict
	}
	defer end()
	var asked []*trial
	for _, path := range s.Paths(ctx, p.healthy()) {
		t := &trial{diagnosis: diagnosis{p.Echoer, path}}
		if path.over() {
			asked = append(asked, t)
		}
	}
	wave(ctx, asked)
	var kept []*trial
	for _, t := range asked {
		if t.returned == t.sent {
			kept = append(kept, &trial{diagnosis: t.diagnosis})
		}
	}
	if len(kept) == 0 || ctx.Err() != nil || !enable(ctx) {
		return NoVerdict
	}
	for range trialWaves {
		wave(ctx, kept)
		checked := 0
		for _, t := range kept {
			checked += t.returned[HalfBare]
		}
		if checked == 0 || ctx.Err() != nil {
			break
		}
	}
	if ctx.Err() != nil {
		return NoVerdict
	}
	return judge(kept)
}

// healthy returns some of the peers whose last probe passed.
func (p *Prober) healthy() (keys []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key, r := range p.peers {
		if r.Cause == Well && r.over() {
			keys = append(keys, key)
		}
	}
	rand.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	return keys[:min(sample, len(keys))]
}

// wave sends a small and a large packet of each kind to each of the peers, in random
// order, and waits until all have come back or are lost.
func wave(ctx context.Context, peers []*trial) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	var sends []func()
	for _, t := range peers {
		for _, kind := range trialKinds {
			for _, size := range []int{small, max(small, t.path.MTU)} {
				t.sent[kind]++
				sends = append(sends, func() {
					if _, err := t.once(ctx, kind, size); err == nil {
						mu.Lock()
						defer mu.Unlock()
						t.returned[kind]++
					}
				})
			}
		}
	}
	rand.Shuffle(len(sends), func(i, j int) { sends[i], sends[j] = sends[j], sends[i] })
	for _, send := range sends {
		wg.Go(send)
	}
	wg.Wait()
}

// judge returns the verdict. One peer that no packet with a checksum reaches is
// enough for Broken; Sound takes most of the peers.
func judge(peers []*trial) Verdict {
	sound := 0
	for _, t := range peers {
		checked, bare := t.returned[HalfBare], t.returned[Bare]
		switch {
		case checked == 0 && bare >= max(t.sent[Bare]-1, 2):
			return Broken
		case checked >= t.sent[HalfBare]-1:
			sound++
		}
	}
	if 2*sound > len(peers) {
		return Sound
	}
	return NoVerdict
}
