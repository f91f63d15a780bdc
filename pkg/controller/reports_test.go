package controller

import (
	"testing"
	"time"
)

func TestReportsArePaced(t *testing.T) {
	var r Reports
	sent, wrong := 0, true
	now := time.Unix(1_000_000, 0)
	send := func() time.Duration {
		again := r.Send(now, func() bool { sent++; return wrong })
		if again.IsZero() {
			return 0
		}
		return again.Sub(now)
	}
	if again := send(); sent != 1 || again != remindInterval {
		t.Errorf("%d reports, again in %s", sent, again)
	}
	now = now.Add(reportInterval / 4)
	if again := send(); sent != 1 || again != reportInterval*3/4 {
		t.Errorf("%d reports within a second, again in %s", sent, again)
	}
	now, wrong = now.Add(reportInterval), false
	if again := send(); sent != 2 || again != 0 {
		t.Errorf("%d reports when nothing is wrong, again in %s", sent, again)
	}
}
