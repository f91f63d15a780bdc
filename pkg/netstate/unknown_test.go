package netstate_test

import (
	"errors"
	"fmt"
	"testing"

	. "github.com/tulle-net/tulle/pkg/netstate"
)

func TestUnknownIsWhatProgramsHold(t *testing.T) {
	slow, gone := errors.New("too slow"), errors.New("gone")
	var none Unknown
	u := none.With("tulle-wg", slow)
	for o, hidden := range map[Object]bool{
		WGPeer{Link: "tulle-wg"}: true, WGAllowed{Link: "tulle-wg"}: true, WGPeer{Link: "tulle6-wg"}: false,
		Link{Name: "tulle-wg"}: false, Addr{Link: "tulle-wg"}: false, Route{Link: "tulle-wg"}: false,
	} {
		if u.Hides(o.Key()) != hidden || none.Hides(o.Key()) {
			t.Errorf("%s: hidden is not %t", o, hidden)
		}
	}
	u = u.With("tulle6-wg", gone)
	if got := u.Error(); got != "link tulle-wg: too slow; and 1 more" {
		t.Errorf("the error is %s", got)
	}
	if got, failed := UnknownOf(fmt.Errorf("dump: %w", u)); failed != nil || len(got) != 2 {
		t.Errorf("unknown are %v, %v", got, failed)
	}
	if got, failed := UnknownOf(slow); failed != slow || got != nil {
		t.Errorf("unknown are %v, %v", got, failed)
	}
	if got, failed := UnknownOf(nil); failed != nil || got != nil {
		t.Errorf("unknown are %v, %v", got, failed)
	}
}
