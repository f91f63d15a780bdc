package kube

import (
	"fmt"
	"testing"

	"github.com/tulle-net/tulle/subnet/storetest"
)

// TestConformance runs the suite on a fake API server, with streamed lists and
// without.
func TestConformance(t *testing.T) {
	for _, streams := range []bool{true, false} {
		t.Run(fmt.Sprintf("streaming %t", streams), func(t *testing.T) {
			storetest.RunGiven(t, func(t *testing.T) storetest.Store {
				l, f := newFakeLab(t)
				f.NoWatchList = !streams
				f.Gives = func(i int) []string {
					return []string{fmt.Sprintf("10.5.0.%d/30", i*4%256), fmt.Sprintf("fd00:5:0:%x::/64", i+1)}
				}
				return l
			})
		})
	}
}
