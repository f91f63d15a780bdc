package network

import (
	"fmt"
	"runtime"
	"time"

	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/pkg/test/tabletest"
)

// table is a Markdown table.
type table struct {
	head []string
	rows [][]string
}

func (t *table) String() string {
	return tabletest.Markdown(append([][]string{t.head}, t.rows...)...)
}

func (t *table) row(cells ...string) { t.rows = append(t.rows, cells) }

func (s scale) section(title string, t *table) {
	fmt.Fprintf(s.to, "\n### %s\n\n%s", title, t)
}

func us(d time.Duration) string { return fmt.Sprintf("%.0f", d.Seconds()*1e6) }

func pair(s sample) string {
	if len(s) == 0 {
		return "–"
	}
	return tabletest.Milliseconds(s.min()) + " / " + tabletest.Milliseconds(s.median())
}

func times(a, b time.Duration) string { return fmt.Sprintf("%.1f×", a.Seconds()/b.Seconds()) }

func ratio(a, b sample) string {
	if len(a) == 0 || len(b) == 0 {
		return "–"
	}
	return times(a.median(), b.median())
}

// report prints all results. Times are in ms, minimum and median.
func (s scale) report(runs []*run, more *single, memory []held, heals []heal) {
	fmt.Fprintf(s.to, "\n%s, %d processors. Times are in ms, minimum / median, unless the table says otherwise; ratios are of medians.\n", runtime.Version(), runtime.NumCPU())
	cold := &table{head: []string{"Cold apply", "peers", "tulle", "µs a peer", "batch tools", "faster", "batch, metric 0", "faster", "raw netlink", "over raw"}}
	clean := &table{head: []string{"Resync, all in order", "peers", "tulle", "show", "faster", "dump and diff alone"}}
	drift := &table{head: []string{"Resync, 1 % gone", "peers", "tulle", "show and batch", "faster"}}
	gone := &table{head: []string{"All removed", "peers", "tulle", "µs a peer", "batch tools", "faster"}}
	for _, r := range runs {
		n := fmt.Sprint(r.peers)
		each := func(s sample) string {
			return fmt.Sprintf("%.1f", s.median().Seconds()*1e6/float64(r.peers))
		}
		cold.row(r.backend, n, pair(r.cold), each(r.cold), pair(r.coldBatch), ratio(r.coldBatch, r.cold),
			pair(r.coldPlain), ratio(r.coldPlain, r.cold), pair(r.coldRaw), ratio(r.cold, r.coldRaw))
		clean.row(r.backend, n, pair(r.resync), pair(r.show), ratio(r.show, r.resync), pair(r.dumpDiff))
		drift.row(r.backend, n, pair(r.drift), pair(r.driftBatch), ratio(r.driftBatch, r.drift))
		gone.row(r.backend, n, pair(r.gone), each(r.gone), pair(r.goneBatch), ratio(r.goneBatch, r.gone))
	}
	s.section("Cold apply", cold)
	s.section("A full resync that finds nothing", clean)
	s.section("A full resync that finds 1 % gone", drift)
	s.section("All peers removed", gone)

	one := &table{head: []string{fmt.Sprintf("One peer among %d, µs", more.among), "minimum", "median", "maximum"}}
	for _, m := range []struct {
		what string
		took sample
	}{
		{"tulle, one more", more.tulle}, {"tulle, one gone", more.gone},
		{"ip route, ip neigh, bridge fdb add", more.tools}, {"raw netlink, one more", more.bare},
	} {
		one.row(m.what, us(m.took.min()), us(m.took.median()), us(m.took.max()))
	}
	s.section("One more peer", one)

	healing := &table{head: []string{"Deleted by a stranger", "peers", "times", "minimum", "median", "maximum"}}
	for _, h := range heals {
		healing.row(healedWhat[h.what], fmt.Sprint(h.peers), fmt.Sprint(len(h.took)), tabletest.Milliseconds(h.took.min()), tabletest.Milliseconds(h.took.median()), tabletest.Milliseconds(h.took.max()))
	}
	s.section("Until it is back", healing)

	bytes := &table{head: []string{"Memory", "peers", "bytes a peer"}}
	for _, m := range memory {
		bytes.row(m.backend, fmt.Sprint(m.peers), fmt.Sprintf("%.0f", m.bytes))
	}
	s.section("Memory", bytes)
}

var healedWhat = map[string]string{
	netstate.KindRoute.String(): "a peer's route",
	netstate.KindNeigh.String(): "a peer's neighbour entry",
	netstate.KindFDB.String():   "a peer's forwarding entry",
	netstate.KindAddr.String():  "the device's address, and all routes with it",
	netstate.KindLink.String():  "the device, and all that is on it",
}
