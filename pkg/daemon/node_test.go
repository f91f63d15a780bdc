package daemon

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tulle-net/tulle/pkg/hostif"
	"github.com/tulle-net/tulle/pkg/retry"
	"github.com/tulle-net/tulle/pkg/test/bubbletest"
	"github.com/tulle-net/tulle/subnet"
	"github.com/tulle-net/tulle/subnet/kube"
)

// fakeCluster records what is reported of a Node.
type fakeCluster struct {
	mu    sync.Mutex
	said  []string
	away  bool
	other bool // another program sets the condition
	now   kube.Condition
}

func (f *fakeCluster) SetNetworkUnavailable(ctx context.Context, c kube.Condition) error {
	f.mu.Lock()
	away := f.away
	if !away && (f.now != c || f.other) {
		f.now, f.other = c, false
		f.said = append(f.said, fmt.Sprintf("unavailable %t: %s", c.Unavailable, c.Reason))
	}
	f.mu.Unlock()
	if away {
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

func (f *fakeCluster) Event(ctx context.Context, warning bool, why, message string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.away {
		return errors.New("away")
	}
	f.said = append(f.said, fmt.Sprintf("event %t: %s", warning, why))
	return nil
}

// all returns what was reported since the last call.
func (f *fakeCluster) all() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	said := f.said
	f.said = nil
	slices.Sort(said)
	return said
}

func (f *fakeCluster) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// fakeAgent returns the state that the test sets.
type fakeAgent struct {
	mu     sync.Mutex
	status outlook
	counts bool // every answer has another text
	asked  int
}

func (f *fakeAgent) outlook(context.Context) outlook {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.asked++; f.counts {
		f.status.text = fmt.Sprintf("%d are missing", f.asked)
	}
	return f.status
}

func (f *fakeAgent) be(ready bool, own string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.status = outlook{started: ready, text: "for a reason"}
	if own != "" {
		f.status.own.Subnets[subnet.IPv4] = netip.MustParsePrefix(own)
	}
}

// TestNodeReportsItsNetwork checks that a Node reports its network available when it works, and
// unavailable when it has failed for a while.
func TestNodeReportsItsNetwork(t *testing.T) {
	const up, down, bad, good = "unavailable false: FlannelIsUp", "unavailable true: TulleNotReady", "event true: NetworkNotReady", "event false: NetworkReady"
	bubbletest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		agent, cluster, changed := &fakeAgent{}, &fakeCluster{}, retry.NewWakeup()
		var running sync.WaitGroup
		running.Go(func() { nodeReporter{agent, cluster, true}.run(ctx, changed) })
		after := func(d time.Duration, want ...string) {
			t.Helper()
			<-time.After(d)
			synctest.Wait()
			if got := cluster.all(); !slices.Equal(got, want) {
				t.Errorf("said %q, want %q", got, want)
			}
		}
		be := func(ready bool, own string) {
			agent.be(ready, own)
			changed.Wake()
		}
		after(10 * time.Second)
		be(true, "10.5.1.0/24")
		after(time.Second, up)
		be(false, "10.5.1.0/24")
		after(10 * time.Second)
		be(true, "10.5.1.0/24")
		after(time.Minute) // without a change
		be(false, "10.5.1.0/24")
		after(25*time.Second, bad, down)
		be(true, "10.5.2.0/24")
		after(time.Second, good, "event true: SubnetChanged", up)
		cluster.set(func() { cluster.other = true })
		after(conditionPause+time.Second, up)
		cluster.set(func() { cluster.away = true })
		be(false, "10.5.2.0/24")
		after(time.Minute)
		be(true, "10.5.2.0/24")
		after(time.Minute)
		be(false, "10.5.2.0/24")
		cluster.set(func() { cluster.away = false })
		after(time.Minute, bad, down)
		cancel()
		running.Wait()
	})
}

// TestNodeReportsTextSeldom checks that a condition whose text changes all the time is
// not written each time.
func TestNodeReportsTextSeldom(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), unready+3*conditionPause+conditionPause/2)
		defer cancel()
		agent, cluster, changed := &fakeAgent{counts: true}, &fakeCluster{}, retry.NewWakeup()
		var running sync.WaitGroup
		running.Go(func() {
			for tick := time.NewTicker(time.Second); ctx.Err() == nil; <-tick.C {
				changed.Wake()
			}
		})
		nodeReporter{agent, cluster, true}.run(ctx, changed)
		running.Wait()
		const down = "unavailable true: TulleNotReady"
		if got := cluster.all(); !slices.Equal(got, []string{"event true: NetworkNotReady", down, down, down, down}) {
			t.Errorf("said %q", got)
		}
	})
}

// TestEventsAlone checks that a daemon without conditions sends events.
func TestEventsAlone(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		cluster := &fakeCluster{}
		nodeReporter{&fakeAgent{status: outlook{text: strings.Repeat("é", 2000)}}, cluster, false}.run(ctx, retry.NewWakeup())
		if got := cluster.all(); !slices.Equal(got, []string{"event true: NetworkNotReady"}) {
			t.Errorf("said %q", got)
		}
	})
}

func TestWithFacts(t *testing.T) {
	a := func(text string) (p subnet.Pair[netip.Addr]) {
		p[subnet.IPv4] = netip.MustParseAddr(text)
		return p
	}
	flag := hostif.Spec{PublicIP: a("192.0.2.1")}
	for _, c := range []struct {
		name     string
		spec     hostif.Spec
		facts    kube.Facts
		external bool
		want     hostif.Spec
	}{
		{name: "nothing"},
		{name: "the Node's address", facts: kube.Facts{Internal: a("192.0.2.2"), External: a("203.0.113.1")}, want: hostif.Spec{NodeIP: a("192.0.2.2")}},
		{name: "the external one", facts: kube.Facts{External: a("203.0.113.1")}, external: true, want: hostif.Spec{Published: a("203.0.113.1")}},
		{name: "a flag before the external one", spec: flag, facts: kube.Facts{External: a("203.0.113.1")}, external: true, want: flag},
		{name: "an annotation before a flag", spec: flag, facts: kube.Facts{Public: a("192.0.2.3")}, want: hostif.Spec{PublicIP: a("192.0.2.3")}},
		{name: "what overwrites all", spec: flag, facts: kube.Facts{Public: a("192.0.2.3"), Overwrite: a("192.0.2.4"), External: a("203.0.113.1")}, external: true,
			want: hostif.Spec{PublicIP: a("192.0.2.3"), Published: a("192.0.2.4")}},
	} {
		if got := withFacts(c.spec, c.facts, c.external); got.NodeIP != c.want.NodeIP || got.Published != c.want.Published || got.PublicIP != c.want.PublicIP {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}
