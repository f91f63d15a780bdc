package wireguard

import (
	"context"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/pkg/wgkey"
)

// TestSilentProgramCostsOneWait: a program that is stopped accepts connections, and answers
// none. What it holds is then unknown, and not gone.
func TestSilentProgramCostsOneWait(t *testing.T) {
	l := newLab(t)
	link := l.link("tulle-wg")
	l.settle(link)
	p, _ := l.host.program(filepath.Join(l.dir, link.Name))

	p.frozen.Lock()
	short, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, _, err := l.Dump(short, link); err == nil || l.Engine.link(link.Name).silent() != nil {
		t.Errorf("a dump that was given up ends with %v", err)
	}
	var all []netstate.Object
	var plan netstate.Plan
	for i := range 600 {
		peer := netstate.WGPeer{Link: link.Name, Peer: wgkey.New().Public(), PSK: l.psk, Endpoint: netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, byte(i >> 8), byte(i)}), 51820)}
		all, plan = append(all, peer), append(plan, netstate.Op{Verb: netstate.Create, Object: peer})
	}
	began := time.Now()
	failed := l.Apply(t.Context(), plan)
	if len(failed) != len(plan) || !strings.Contains(failed[599].Error(), "does not answer") {
		t.Errorf("%d steps failed: %v", len(failed), failed)
	}
	if _, held, err := l.Dump(t.Context(), link); err == nil || len(held) > 0 {
		t.Errorf("a dump has %v, %v", held, err)
	}
	if err := l.Open(t.Context(), link); err == nil {
		t.Error("the link is open")
	}
	if _, err := l.Sessions(t.Context(), []string{link.Name}); err == nil {
		t.Error("there are sessions")
	}
	if took := time.Since(began); took > 2*answerLimit {
		t.Errorf("this took %s", took)
	}
	select {
	case <-l.stopped:
		t.Error("the link is reported while the program is silent")
	default:
	}

	p.frozen.Unlock()
	if got := <-l.stopped; got != link.Name { // it answers again
		t.Errorf("%s is reported", got)
	}
	l.settle(link, all...)

	// A daemon that starts meanwhile has not heard of the program yet.
	p.frozen.Lock()
	defer p.frozen.Unlock()
	l.start()
	if _, held, err := l.Dump(t.Context(), link); err == nil || len(held) > 0 {
		t.Errorf("after a restart a dump has %v, %v", held, err)
	}
	l.Leave()
}
