package probe

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestSessionsExplainWhatIsLost finds a cause from the state of a session through which
// nothing passes.
func TestSessionsExplainWhatIsLost(t *testing.T) {
	now := time.Now()
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	for _, c := range []struct {
		name   string
		lost   Cause
		is     Session
		before Session
		back   time.Duration
		want   Cause
	}{
		{"nothing is known", Filtered, Session{}, Session{}, time.Hour, Filtered},
		{"nothing ever came", Filtered, Session{Known: true}, Session{}, 0, NoHandshake},
		{"nothing comes any more", Filtered, Session{true, ago(time.Hour), 900}, Session{true, ago(time.Hour), 900}, 0, NoHandshake},
		{"nothing comes from a host that is down", Down, Session{Known: true}, Session{}, 0, Down},
		{"another preshared key", Filtered, Session{Known: true, Received: 148}, Session{}, 0, Keys},
		{"another preshared key of a host that drops pings", Down, Session{Known: true, Received: 148}, Session{}, 0, Keys},
		{"another preshared key since", Filtered, Session{true, ago(time.Hour), 1048}, Session{true, ago(time.Hour), 900}, 0, Keys},
		{"the session lives", Filtered, Session{true, ago(time.Minute), 1048}, Session{true, ago(time.Minute), 900}, 0, Filtered},
		{"a handshake in the future", Filtered, Session{true, ago(-time.Hour), 900}, Session{}, 0, ClockBack},
		{"the clock went back", Filtered, Session{Known: true}, Session{}, time.Hour, ClockBack},
		{"the clock went back, and the host is down", Down, Session{Known: true}, Session{}, time.Hour, Down},
	} {
		f := Finding{Path: way("7"), Cause: c.lost}.explained(c.is, c.before, now, c.back)
		if f.Cause != c.want || f.Why() == "" {
			t.Errorf("%s: %s, %q", c.name, f.Cause, f.Why())
		}
	}
}

// TestClockThatWentBack compares the clock with the latest time that it has shown.
func TestClockThatWentBack(t *testing.T) {
	var l latest
	now := time.Now()
	for _, c := range []struct{ at, want time.Duration }{
		{0, 0}, {time.Hour, 0}, {time.Hour - time.Second, 0}, {30 * time.Minute, 30 * time.Minute}, {59 * time.Minute, time.Minute}, {2 * time.Hour, 0},
	} {
		if got := l.back(now.Add(c.at)); got != c.want {
			t.Errorf("after %s it is %s behind, not %s", c.at, got, c.want)
		}
	}
}

// TestProberNamesTheSessionsFault: the first round finds that nothing passes, and later
// ones see what arrives meanwhile.
func TestProberNamesTheSessionsFault(t *testing.T) {
	c := newCluster(1)
	c.keyed, c.state = true, Session{Known: true}
	c.set("0", true)
	run(t, c, func(p *Prober, _ *atomic.Int32) {
		after(20 * time.Second)
		if r, _ := p.Of("0"); r.Cause != NoHandshake || !strings.Contains(r.Why(), "no WireGuard handshake") {
			t.Errorf("a host from which nothing comes is %s: %s", r.Cause, r.Why())
		}
		c.mu.Lock()
		c.state.Received = 148
		c.mu.Unlock()
		after(20 * time.Second)
		if r, _ := p.Of("0"); r.Cause != Keys || !strings.Contains(r.Why(), "Backend.PSK") {
			t.Errorf("a handshake that is not completed is %s: %s", r.Cause, r.Why())
		}
		c.set("0", false)
		after(20 * time.Second)
		if r, _ := p.Of("0"); r.Cause != Well {
			t.Errorf("an answer is %s", r.Cause)
		}
	})
}
