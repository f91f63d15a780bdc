package backend

import "testing"

func TestOuterMTUExceedsNoInterface(t *testing.T) {
	for _, c := range []struct{ config, link, want int }{{0, 0, 0}, {0, 1500, 1500}, {9000, 0, 9000}, {9000, 1500, 1500}, {1400, 1500, 1400}} {
		if got := OuterMTU(c.config, c.link); got != c.want {
			t.Errorf("config %d, interface %d: %d, want %d", c.config, c.link, got, c.want)
		}
	}
}
