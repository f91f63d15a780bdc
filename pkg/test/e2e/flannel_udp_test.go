//go:build flannel

package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// TestFlannelUDPReplaced starts tulled beside a flanneld that uses the backend udp, which
// then ends, and goes the way back. The lease stays.
func TestFlannelUDPReplaced(t *testing.T) {
	w := newWorld(t, 3, 1, flannelUDP)
	one := w.Hosts[0]
	w.startFlannel(one)
	w.startFlannel(w.Hosts[1])
	w.start(w.Hosts[2])
	for _, h := range w.Hosts {
		h.AddPod()
	}
	w.Matrix()
	key, old := w.key(one), w.daemons[one]

	w.start(one)
	w.eventually(func() error {
		if out, _ := w.command(one, "status"); !strings.Contains(out, "ss -lunp sport = 8285") {
			return fmt.Errorf("the port is not named:\n%s", out)
		}
		return nil
	})
	flood := w.floods(one)
	flood.more(100)
	old.Kill()
	w.daemons[one].WaitLog("Kernel in sync with all peers")
	w.Matrix()
	for _, each := range flood.each {
		t.Logf("to tulled: %s", each.Stop())
	}
	if now := w.key(one); now != key {
		t.Errorf("the lease is %s, and was %s", now, key)
	}

	w.daemons[one].Stop()
	if out, code := w.cleanUp(one); code != 0 || !strings.Contains(out, "removed link tulle.udp") {
		t.Errorf("cleanup ends with %d:\n%s", code, out)
	}
	w.startFlannel(one)
	w.Matrix()
	if now := w.key(one); now != key {
		t.Errorf("the lease is %s, and was %s", now, key)
	}
}
