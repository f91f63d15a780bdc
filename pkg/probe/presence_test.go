package probe

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
)

// proves returns the Prove function of a daemon with a secret.
func proves(secret string) func([]byte) []byte {
	return func(challenge []byte) []byte {
		sum := sha256.Sum256(append([]byte(secret), challenge...))
		return sum[:proofLen]
	}
}

// keys are the keys in the lease of the asked host.
var keys = []string{"instance of it", "ID of it"}

// TestPresence asks from one host which daemon lives on another.
func TestPresence(t *testing.T) {
	a, b := kerneltest.NewNS(t, "asking"), kerneltest.NewNS(t, "asked")
	kerneltest.Join(t, a, "eth0", b, "eth0")
	for i, ns := range []*kerneltest.NS{a, b} {
		ns.IP(t, fmt.Sprintf("addr add 198.18.9.%d/24 dev eth0", i+1))
		ns.IP(t, fmt.Sprintf("addr add fd00:18::9:%d/64 dev eth0 nodad", i+1))
	}
	there := []netip.Addr{ip("198.18.9.2"), ip("fd00:18::9:2")}
	asker := NewPresence(8479, proves("one"))
	wants := func(at netip.Addr, want Resident) {
		t.Helper()
		var got Resident
		a.Do(t, func() error { got = asker.Ask(t.Context(), at, keys); return nil })
		if got != want {
			t.Errorf("at %s lives %d, want %d", at, got, want)
		}
	}
	for secret, want := range map[string]Resident{"one": Twin, "two": OtherDaemon} {
		other := NewPresence(8479, proves(secret))
		b.Do(t, func() error { other.Set(there, keys); return nil })
		for _, at := range there {
			wants(at, want)
		}
		for _, by := range [][]string{nil, {"instance of another"}, {""}} {
			a.Do(t, func() error {
				if got := asker.Ask(t.Context(), there[0], by); got != NoDaemon {
					t.Errorf("asked by %q, at %s lives %d", by, there[0], got)
				}
				return nil
			})
		}
		b.Do(t, func() error { other.Set(there[:1], keys); return nil })
		wants(there[0], want)
		wants(there[1], NoDaemon)
		other.Close()
		other.Close()
		other.Set(there, keys) // it has ended
		wants(there[0], NoDaemon)
	}
	wants(ip("198.18.9.77"), NoDaemon) // no host has that address
	wants(ip("203.0.113.1"), NoDaemon) // nothing leads there

	// Its own answers are no host's, at any address.
	b.Do(t, func() error { asker.Set(there, keys); return nil })
	wants(there[0], NoDaemon)
	asker.Close()
	twin := NewPresence(8479, proves("one"))
	a.Do(t, func() error { twin.Set([]netip.Addr{ip("198.18.9.1")}, keys); return nil })
	defer twin.Close()
	wants(ip("198.18.9.1"), NoDaemon) // an address of this host
}

// TestForgedPresence answers without the secret, and without having seen the
// question.
func TestForgedPresence(t *testing.T) {
	asker, twin := NewPresence(0, proves("one")), NewPresence(0, proves("one"))
	old := ask(t, twin) // an answer to another question
	for name, c := range map[string]struct {
		answer func(question []byte) []byte
		want   Resident
	}{
		"a true one":           {func(q []byte) []byte { twin.answer(q, newKeys(keys)); return q }, Twin},
		"without a proof":      {func(q []byte) []byte { twin.answer(q, newKeys(keys)); clear(q[proofAt:]); return q }, OtherDaemon},
		"of another run":       {func(q []byte) []byte { twin.answer(q, newKeys(keys)); q[runAt]++; return q }, OtherDaemon},
		"to another question":  {func([]byte) []byte { return old }, NoDaemon},
		"the proof of another": {func(q []byte) []byte { twin.answer(q, newKeys(keys)); copy(q[proofAt:], old[proofAt:]); return q }, OtherDaemon},
		"its own, passed on":   {func(q []byte) []byte { asker.answer(q, newKeys(keys)); return q }, NoDaemon},
		"the question itself":  {func(q []byte) []byte { return q }, NoDaemon},
		"a short one":          {func(q []byte) []byte { twin.answer(q, newKeys(keys)); return q[:presenceLen-1] }, NoDaemon},
		"a long one":           {func(q []byte) []byte { twin.answer(q, newKeys(keys)); return append(q, 0) }, NoDaemon},
		"nothing":              {func([]byte) []byte { return nil }, NoDaemon},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, err := net.ListenPacket("udp4", "127.0.0.2:0")
			if err != nil {
				t.Fatal(err)
			}
			ended := make(chan struct{})
			defer func() { conn.Close(); <-ended }()
			go func() {
				defer close(ended)
				b := make([]byte, 1000)
				for {
					n, from, err := conn.ReadFrom(b)
					if err != nil {
						return
					}
					_, _ = conn.WriteTo(c.answer(bytes.Clone(b[:n])), from)
				}
			}()
			here := &Presence{Port: conn.LocalAddr().(*net.UDPAddr).AddrPort().Port(), Prove: asker.Prove, run: asker.run}
			if got := here.Ask(t.Context(), ip("127.0.0.2"), keys); got != c.want {
				t.Errorf("%d lives there, want %d", got, c.want)
			}
		})
	}
}

// ask returns p's answer to a question of its own.
func ask(t *testing.T, p *Presence) []byte {
	t.Helper()
	b := newQuestion(make([]byte, challengeLen), newKeys(keys)[1])
	if !p.answer(b, newKeys(keys)) {
		t.Fatal("a question has no answer")
	}
	return b
}

// TestPresenceIsNoAmplifier sends questions without a key, and far too many.
func TestPresenceIsNoAmplifier(t *testing.T) {
	p, accepted := NewPresence(0, proves("one")), newKeys(keys)
	for name, b := range map[string][]byte{
		"an answer":        ask(t, p),
		"a probe":          newRequest(request, 1, presenceLen, Tag{}),
		"a short one":      newQuestion(make([]byte, challengeLen), accepted[0])[:presenceLen-1],
		"without a key":    newQuestion(make([]byte, challengeLen), key{}),
		"by another key":   newQuestion(make([]byte, challengeLen), newKeys([]string{"another"})[0]),
		"a tag alone":      newQuestion(make([]byte, challengeLen), key{tag: accepted[0].tag}),
		"nothing":          {},
		"another's packet": bytes.Repeat([]byte{'x'}, presenceLen),
	} {
		if p.answer(b, accepted) {
			t.Errorf("%s is answered", name)
		}
	}
	var pace pace
	now := time.Now()
	for range 3 {
		for n := range maxPackets {
			if wait := pace.next(now); wait != 0 {
				t.Fatalf("answer %d of a second waits for %s", n, wait)
			}
			now = now.Add(time.Millisecond / 2)
		}
		wait := pace.next(now)
		if wait <= 0 || wait > time.Second {
			t.Errorf("what is more than %d waits for %s", maxPackets, wait)
		}
		now = now.Add(wait + 2*time.Second)
	}
}

func FuzzPresence(f *testing.F) {
	asker, accepted := NewPresence(0, proves("one")), newKeys(keys)
	b := newQuestion(make([]byte, challengeLen), accepted[0])
	f.Add(bytes.Clone(b))
	asker.answer(b, accepted)
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		size := len(b)
		if who, ok := asker.read(b, make([]byte, challengeLen)); ok && who == Twin && !bytes.Equal(b[proofAt:], asker.Prove(b[challengeAt:proofAt])) {
			t.Fatalf("%x proves nothing", b)
		}
		if asker.answer(b, accepted) && (len(b) != size || b[kindAt] != presence) {
			t.Fatalf("%x is no answer", b)
		}
	})
}
