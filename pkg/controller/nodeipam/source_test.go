package nodeipam

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/controller"
	"github.com/tulle-net/tulle/pkg/ipam"
	"github.com/tulle-net/tulle/subnet"
)

func networks(texts ...string) (all []netip.Prefix) {
	for _, text := range texts {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

// poolOf returns a pool of /24s.
func poolOf(name string, ranges ...string) ipam.Pool {
	return ipam.Pool{Name: name, Ranges: subnet.Pair[[]netip.Prefix]{subnet.IPv4: networks(ranges...)}, Bits: subnet.Pair[int]{subnet.IPv4: 24}}
}

// usage returns the names of the pools in force with the numbers of their free blocks.
func usage(c *Controller) (all []string) {
	for _, u := range c.Report(time.Now()).Pools {
		all = append(all, fmt.Sprintf("%s %d", u.Pool, u.Free))
	}
	slices.Sort(all)
	return all
}

func newSources(t *testing.T) *Controller {
	t.Helper()
	c, err := New(controller.New(controller.Options{}), Options{
		Pools: []ipam.Pool{poolOf("a", "10.1.0.0/22")}, Services: networks("10.2.0.0/24"), Event: func(controller.Event) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestSourcesAddUp: the pools of all sources are in force, without the ranges of
// services, in any order of their arrival.
func TestSourcesAddUp(t *testing.T) {
	c := newSources(t)
	c.reserve(networks("10.1.1.0/24"))
	if err := c.SetPools("file", []ipam.Pool{poolOf("b", "10.2.0.0/23")}); err != nil {
		t.Fatal(err)
	}
	if got, want := usage(c), []string{"a 3", "b 1"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if err := c.SetPools("file", nil); err != nil {
		t.Fatal(err)
	}
	if got, want := usage(c), []string{"a 3"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestRefusedPoolsLeaveTheFormer: pools that clash with those of another source change
// nothing, and are a problem until the source has others.
func TestRefusedPoolsLeaveTheFormer(t *testing.T) {
	c := newSources(t)
	if err := c.SetPools("file", []ipam.Pool{poolOf("b", "10.3.0.0/23")}); err != nil {
		t.Fatal(err)
	}
	of := Problem{Source: "file", Text: "line 3 is odd"}
	if err := c.SetPools("file", []ipam.Pool{poolOf("a", "10.4.0.0/22")}, of); err == nil {
		t.Error("two pools have one name")
	}
	if got, want := usage(c), []string{"a 4", "b 2"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := c.Report(time.Now()).Problems; len(got) != 2 || got[0] != of || !strings.Contains(got[1].Text, `pool "a": exists twice`) {
		t.Errorf("%+v", got)
	}
	if err := c.SetPools("file", nil); err != nil || len(c.problems()) > 0 {
		t.Errorf("%v, %+v", err, c.problems())
	}
}
