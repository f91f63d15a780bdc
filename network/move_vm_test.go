//go:build vm

package network

import (
	"bufio"
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/subnet"
)

// pingStream is pings from one pod address to another, many a second.
type pingStream struct {
	t    *testing.T
	name string
	end  func()

	mu       sync.Mutex
	answered map[int]bool // by their numbers
	last     int          // the highest of those
}

var answerOf = regexp.MustCompile(`icmp_seq=(\d+) .*time=`)

// pingEach sends pings from each host to the next in both families until the test ends.
func (c *cluster) pingEach() (all []*pingStream) {
	c.t.Helper()
	for i, from := range c.host {
		for _, f := range subnet.Families {
			source, address := from.pod(f).String(), c.host[(i+1)%len(c.host)].pod(f).String()
			s := &pingStream{t: c.t, name: source + " to " + address, answered: make(map[int]bool)}
			cmd := from.ns.Command("ping", "-n", "-i", "0.01", "-I", source, address)
			out, err := cmd.StdoutPipe()
			if err != nil {
				c.t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				c.t.Fatal(err)
			}
			var running sync.WaitGroup
			running.Go(func() {
				for lines := bufio.NewScanner(out); lines.Scan(); {
					if m := answerOf.FindStringSubmatch(lines.Text()); m != nil {
						n, _ := strconv.Atoi(m[1])
						s.mu.Lock()
						s.answered[n] = true
						s.last = max(s.last, n)
						s.mu.Unlock()
					}
				}
			})
			s.end = sync.OnceFunc(func() { _ = cmd.Process.Kill(); running.Wait(); _ = cmd.Wait() })
			c.t.Cleanup(s.end)
			all = append(all, s)
		}
	}
	return all
}

// more waits until so many more pings are answered.
func (s *pingStream) more(n int) {
	s.t.Helper()
	count := func() int {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.answered)
	}
	want := count() + n
	kerneltest.Eventually(s.t, slow, func() error {
		if got := count(); got < want {
			return fmt.Errorf("%s: %d answers, of %d", s.name, got, want)
		}
		return nil
	})
}

// lost ends the pings, and returns the numbers of those without an answer before the last
// answer, and how many there were.
func (s *pingStream) lost() (lost []int, sent int) {
	s.end()
	for n := 1; n < s.last; n++ {
		if !s.answered[n] {
			lost = append(lost, n)
		}
	}
	return lost, s.last
}

// TestMovesOnARealKernel moves a running network between vxlan and the backends whose
// modules few machines have, under pings. No ping is lost, and nothing of the former
// backend is left.
func TestMovesOnARealKernel(t *testing.T) {
	devices := map[string][]string{
		"vxlan": {"tulle.1", "tulle6.1"}, "ipip": {"tulle.ipip", "tulle6.ipip"}, "wireguard": {"tulle-wg", "tulle6-wg"},
	}
	c := newCluster(t, config(dual, `{"Type": "vxlan"}`), 3)
	c.start()
	c.pingAll()
	before := "vxlan"
	for _, kind := range []string{"ipip", "vxlan", "wireguard", "vxlan"} {
		name := fmt.Sprintf("the move from %s to %s", before, kind)
		pings := c.pingEach()
		for _, p := range pings {
			p.more(20)
		}
		c.store.SetConfig(config(dual, `{"Type": "`+kind+`"}`))
		for _, w := range c.host {
			kerneltest.Eventually(t, 3*slow, func() error {
				if own := w.own(); own.BackendType != kind || own.Move != "" {
					return fmt.Errorf("%s: node %d publishes %s %s; %s", name, w.number, own.BackendType, own.Move, w.agent.View(context.Background()).checkConfig().Why())
				}
				return nil
			})
			w.ready(len(c.host) - 1)
		}
		all := 0
		for _, p := range pings {
			p.more(100) // of its end, too
			lost, sent := p.lost()
			if all += sent; len(lost) > 0 {
				t.Errorf("%s lost %d of %d pings from %s: %v", name, len(lost), sent, p.name, lost)
			}
		}
		t.Logf("%s: %d pings", name, all)
		for _, w := range c.host {
			held := w.ns.Print(t)
			for _, device := range devices[before] {
				if strings.Contains(held, device) {
					t.Errorf("after %s, node %d still has %s:\n%s", name, w.number, device, held)
				}
			}
			for _, device := range devices[kind] {
				if !strings.Contains(held, device) {
					t.Errorf("after %s, node %d has no %s:\n%s", name, w.number, device, held)
				}
			}
			if _, confined := w.agent.Firewall.Dropped(t.Context()); confined != (kind == "wireguard") {
				t.Errorf("after %s, the firewall of node %d confines packets: %t", name, w.number, confined)
			}
		}
		before = kind
	}
}
