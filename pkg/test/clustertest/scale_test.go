package clustertest

import (
	"testing"
	"time"
)

// TestFiftyHostsFitOneMachine logs how long it takes to add and remove 50 hosts with
// pods that all reach one another. One machine must be able to run that many.
func TestFiftyHostsFitOneMachine(t *testing.T) {
	var removing time.Time
	t.Cleanup(func() { t.Logf("removed in %v", time.Since(removing)) })
	start := time.Now()
	took := func(what string) {
		t.Helper()
		t.Logf("%s in %v", what, time.Since(start))
		start = time.Now()
	}
	c := New(t, Options{Hosts: 50, StaticNeighbours: true})
	took("50 hosts")
	byHand(t, c)
	took("routes")
	for _, h := range c.Hosts {
		h.AddPod()
	}
	took("50 pods")
	c.Matrix()
	took("all reached all")
	c.Matrix()
	took("and again")
	for _, h := range c.Hosts {
		h.Start(Command{Argv: []string{"sleep", "1000"}})
	}
	took("50 daemons")
	removing = time.Now()
}
