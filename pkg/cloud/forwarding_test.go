package cloud

import "testing"

func TestForwardingIsDescribedInTheWordsOfTheCloud(t *testing.T) {
	for _, c := range []struct {
		of               Forwarding
		is, isNot, after string
	}{
		{Forwarding{Setting: "the check"}, "the check is off", "the check is on", "off the check"},
		{Forwarding{Setting: "forwarding", On: true}, "forwarding is on", "forwarding is off", "on forwarding"},
	} {
		if c.of.Is(true) != c.is || c.of.Is(false) != c.isNot || c.of.Switch() != c.after {
			t.Errorf("%q, %q, %q", c.of.Is(true), c.of.Is(false), c.of.Switch())
		}
	}
}
