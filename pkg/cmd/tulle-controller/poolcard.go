package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/tulle-net/tulle/pkg/ipam"
	"github.com/tulle-net/tulle/pkg/page"
	"github.com/tulle-net/tulle/subnet"
)

// poolCard shows one family of a pool: numbers, and a picture.
type poolCard struct {
	ipam.PoolUsage
	class  string
	full   string
	layout ipam.Layout
}

// poolCards returns a card for each pool and family. The first ones have pictures.
func (r reading) poolCards(layouts []ipam.Layout) (all []poolCard) {
	type key struct {
		pool   string
		family subnet.Family
	}
	drawn := make(map[key]ipam.Layout)
	for _, l := range layouts {
		drawn[key{l.Pool, l.Family}] = l
	}
	for _, u := range r.ipam.Pools {
		all = append(all, poolCard{u, poolClass(u, r.at), fullWords(u, r.at), drawn[key{u.Pool, u.Family}]})
	}
	return all
}

func poolClass(u ipam.PoolUsage, now time.Time) string {
	switch full := u.Forecast.Full; {
	case u.Draining > 0:
		return ""
	case u.Free+u.Resting == 0, !full.IsZero() && full.Sub(now) < soon:
		return page.Warn
	}
	return ""
}

// fullWords returns in words when a pool will be full.
func fullWords(u ipam.PoolUsage, now time.Time) string {
	switch full := u.Forecast.Full; {
	case u.Free+u.Resting == 0:
		return "now"
	case full.IsZero():
		return "not in sight"
	default:
		return full.UTC().Format(time.DateOnly) + ", in " + page.Count(int(math.Ceil(full.Sub(now).Hours()/24)), "day")
	}
}

// blockState is what a block is used for, in the order in which a picture stacks them.
type blockState struct {
	name  string // also its class in the style sheet
	usage func(ipam.PoolUsage) uint64
	part  func(ipam.Part) uint64
}

// blockStates are all states of blocks. What no other state covers is free.
var blockStates = []blockState{
	{"used", func(u ipam.PoolUsage) uint64 { return u.Used }, func(p ipam.Part) uint64 { return p.Used }},
	{"resting", func(u ipam.PoolUsage) uint64 { return u.Resting }, func(p ipam.Part) uint64 { return p.Resting }},
	{"draining", func(u ipam.PoolUsage) uint64 { return u.Draining }, func(p ipam.Part) uint64 { return p.Draining }},
	{"reserved", func(u ipam.PoolUsage) uint64 { return u.Reserved }, func(p ipam.Part) uint64 { return p.Reserved }},
	{"free", func(u ipam.PoolUsage) uint64 { return u.Free }, func(p ipam.Part) uint64 { return p.Free }},
}

func (v view) writePools(d *page.Document) {
	if !v.hasIPAM && !v.stuck {
		return
	}
	if len(v.pools) == 0 {
		d.Add(`<section class="card pools"><h2>Pools</h2><p>{}</p></section>`+"\n", pick(v.stuck, "Unknown: the main loop does not answer.", "None."))
		return
	}
	d.Add(`<div class="pools">` + "\n")
	for _, c := range v.pools[:min(mostRows, len(v.pools))] {
		c.write(d)
	}
	d.Add("</div>\n")
	writeMore(d, len(v.pools), "tulle-controller ipam")
}

func (c poolCard) write(d *page.Document) {
	d.Add(`<section class="card pool {}">
<h2><bdi>{}</bdi> · {} in blocks of /{}</h2>
<p class="share"><b>{}</b> of {} used</p>
`, c.class, page.Line(c.Pool, 100), c.Family.String(), strconv.Itoa(c.Bits), page.Grouped(c.Used), page.Grouped(c.Total))
	for _, r := range c.layout.Ranges {
		d.Add(`<p class="range"><code>{}</code></p>`+"\n", r.Range.String())
		writeMap(d, r)
	}
	if c.layout.Left > 0 {
		d.Add(`<p class="hint">{} left out</p>`+"\n", page.Count(c.layout.Left, "range"))
	}
	d.Add(`<ul class="legend">`)
	for _, s := range blockStates {
		n := s.usage(c.PoolUsage)
		d.Add("\n"+`<li class="{}"><svg viewBox="0 0 10 10" aria-hidden="true"><rect class="b {}" width="10" height="10"/></svg><b>{}</b> {}</li>`,
			pick(n == 0, "none", ""), s.name, page.Grouped(n), s.name)
	}
	d.Add("\n</ul>\n")
	if c.layout.Each > 1 {
		d.Add(`<p class="hint">Each cell is up to {} blocks, filled by what they are used for.</p>`+"\n", page.Grouped(c.layout.Each))
	}
	largest := "none"
	if c.Largest >= 0 {
		largest = "/" + strconv.Itoa(c.Largest)
	}
	d.Add(`<dl>
<div><dt>largest free</dt><dd>{}</dd></div>
<div><dt>fragmentation</dt><dd>{}</dd></div>
<div><dt>growth</dt><dd>{}</dd></div>
<div><dt>full</dt><dd>{}</dd></div>
</dl>
</section>
`, largest, percent(c.Fragmentation), growth(c.Forecast), c.full)
}

func percent(part float64) string { return strconv.FormatFloat(100*part, 'f', 0, 64) + "%" }

func growth(f ipam.Forecast) string {
	if f.PerDay == 0 {
		return "none"
	}
	return strconv.FormatFloat(f.PerDay, 'g', 2, 64) + " Nodes a day"
}

// The picture of a range is rows of cells, in the order of addresses.
const (
	across = 32 // cells in a row
	cell   = 10
)

// writeMap draws a range. Each state is one path, so that the page stays small.
func writeMap(d *page.Document, r ipam.RangeLayout) {
	rows := (len(r.Parts) + across - 1) / across
	var sum ipam.Part
	for _, p := range r.Parts {
		sum.Used += p.Used
		sum.Free += p.Free
	}
	d.Add(`<svg class="blocks" viewBox="0 0 {} {}" role="img" aria-label="{}">`, strconv.Itoa(across*cell), strconv.Itoa(rows*cell),
		fmt.Sprintf("%s: %s used, %s free", r.Range, page.Grouped(sum.Used), page.Grouped(sum.Free)))
	for i, path := range paths(r.Parts) {
		if path != "" {
			d.Add(`<path class="b {}" d="{}"/>`, blockStates[i].name, path)
		}
	}
	d.Add("</svg>\n")
}

// paths returns one path for each state.
func paths(parts []ipam.Part) []string {
	const inner = cell - 1
	all := make([]strings.Builder, len(blockStates))
	for i, p := range parts {
		x, y := i%across*cell, i/across*cell
		bottom := inner
		for s, height := range heights(p, inner) {
			if height > 0 {
				bottom -= height
				fmt.Fprintf(&all[s], "M%d %dh%dv%dh-%dz", x, y+bottom, inner, height, inner)
			}
		}
	}
	texts := make([]string, len(all))
	for i := range all {
		texts[i] = all[i].String()
	}
	return texts
}

// heights divides a cell among the states of its blocks. Each state that occurs stays
// visible.
func heights(p ipam.Part, whole int) []int {
	all := make([]int, len(blockStates))
	total, largest, left := p.Total(), 0, whole
	for i, s := range blockStates {
		n := s.part(p)
		if n > 0 {
			all[i] = max(1, int(math.Round(float64(n)/float64(total)*float64(whole))))
		}
		left -= all[i]
		if all[i] > all[largest] {
			largest = i
		}
	}
	all[largest] += left // rounded
	return all
}
