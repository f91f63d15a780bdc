package trouble

import (
	"errors"
	"testing"

	"github.com/tulle-net/tulle/pkg/test/logtest"
)

func TestOutcomeLogsEachChangeOnce(t *testing.T) {
	log := logtest.Capture(t, 0)
	o := Outcome{Failed: "Lost it", Works: "Found it again"}
	silent := Outcome{Failed: "Lost it"}
	first, second := errors.New("first"), errors.New("second")
	for _, err := range []error{nil, first, second, nil, nil, second} {
		o.Was(err)
		silent.Was(err)
		if !errors.Is(o.Err(), err) {
			t.Errorf("after %v: %v", err, o.Err())
		}
	}
	if lost, found := log.Count("Lost it"), log.Count("Found it again"); lost != 4 || found != 1 {
		t.Errorf("%d failures and %d recoveries in the log", lost, found)
	}
}
