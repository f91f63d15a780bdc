package trouble

import (
	"errors"
	"strings"
	"testing"

	"github.com/tulle-net/tulle/pkg/test/logtest"
)

func TestOutcomeLogsEachChangeOnce(t *testing.T) {
	log := logtest.Capture(t, 0)
	o := Outcome{Failed: "Lost it", Works: "Found it again"}
	silent := Outcome{Failed: "Lost it"}
	each := Outcome{Failed: "Lost it for a reason", EachReason: true}
	first, second := errors.New("first"), errors.New("second")
	for _, err := range []error{nil, first, second, errors.New("second"), nil, nil, second} {
		o.Was(err)
		silent.Was(err)
		each.Was(err)
		if !errors.Is(o.Err(), err) {
			t.Errorf("after %v: %v", err, o.Err())
		}
	}
	if lost, found := log.Count(`"Lost it"`), log.Count("Found it again"); lost != 4 || found != 1 {
		t.Errorf("%d failures and %d recoveries in the log", lost, found)
	}
	if first, second := log.Count("for a reason", "first"), log.Count("for a reason", "second"); first != 1 || second != 2 {
		t.Errorf("in the log: the first reason %d times, the second %d times, want 1 and 2", first, second)
	}
}

// TestOutcomeComparesReasons: texts that differ from try to try do not count as new reasons.
func TestOutcomeComparesReasons(t *testing.T) {
	log := logtest.Capture(t, 0)
	o := Outcome{Failed: "Lost it", EachReason: true, Reason: func(err error) string {
		before, _, _ := strings.Cut(err.Error(), "#")
		return before
	}}
	for _, text := range []string{"denied#1", "denied#2", "slow#3", "slow#4"} {
		o.Was(errors.New(text))
	}
	if denied, slow := log.Count("denied#1"), log.Count("slow#3"); denied != 1 || slow != 1 || log.Count("Lost it") != 2 {
		t.Errorf("in the log: %d lines, the first reason %d times, the second %d times", log.Count("Lost it"), denied, slow)
	}
}
